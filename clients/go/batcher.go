package meterline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/meterline/meterline/clients/go/api"
)

// Event is a usage event. Of its members only Type and Subject must be said to a Batcher.
type Event = api.EventRequest

// BatcherOptions are bounds; those that are zero are set to those of DefaultBatcher.
type BatcherOptions struct {
	Source      string        // of events that name none; with the ID it makes an event itself
	EventsMax   int           // events of one request at most
	BytesMax    int           // bytes of one request's body at most; a larger event travels alone
	Linger      time.Duration // how long an event waits for others to travel with
	RequestsMax int           // requests under way at the same time
	// HeldBytesMax is how much is held at most, what is under way included: Add waits beyond it.
	HeldBytesMax int
}

// DefaultBatcher are the bounds of a batcher that is given no others.
var DefaultBatcher = BatcherOptions{
	EventsMax:    500,
	BytesMax:     900_000,
	Linger:       100 * time.Millisecond,
	RequestsMax:  4,
	HeldBytesMax: 64 << 20,
}

// ErrClosed is returned for events that are added to a closed Batcher.
var ErrClosed = errors.New("meterline: the batcher is closed")

// NotAcceptedError is an event that was not accepted as far as the client knows; Unwrap says why.
// Adding Event again is safe whatever became of it: under one source and ID it counts once.
type NotAcceptedError struct {
	Event Event
	cause error
}

func (e *NotAcceptedError) Error() string {
	return fmt.Sprintf("event %s: %v", e.Event.ID, e.cause)
}

// Unwrap gives the cause.
func (e *NotAcceptedError) Unwrap() error { return e.cause }

// frameBytes are the brackets of a batch; each event has its comma in its own count.
const frameBytes = 2

type pending struct {
	event Event
	text  []byte
}

func (p pending) bytes() int { return len(p.text) + 1 }

type batch struct {
	events []pending
	done   chan struct{} // closed once the fate of each event is known
}

// Batcher sends events in batches. Every event that Add took and that was not accepted is told to
// onError, once. Call Close before the program ends. It is safe for concurrent use.
type Batcher struct {
	client  *Client
	options BatcherOptions
	onError func(*NotAcceptedError)
	slots   chan struct{} // one for each request under way

	mutex        sync.Mutex
	closed       bool
	waiting      []pending
	waitingBytes int
	timer        *time.Timer
	batches      map[*batch]struct{} // cut and not settled
	heldBytes    int
	released     chan struct{} // closed, and made anew, whenever fewer bytes are held
}

// NewBatcher makes a batcher. onError is told of each event that was not accepted; several
// goroutines may call it at once.
func (c *Client) NewBatcher(
	options BatcherOptions, onError func(*NotAcceptedError),
) (*Batcher, error) {
	if options.Source == "" || onError == nil {
		return nil, errors.New("meterline: a batcher needs a Source and an onError")
	}
	fill := func(bound *int, fallback int) {
		if *bound <= 0 {
			*bound = fallback
		}
	}
	fill(&options.EventsMax, DefaultBatcher.EventsMax)
	fill(&options.BytesMax, DefaultBatcher.BytesMax)
	fill(&options.RequestsMax, DefaultBatcher.RequestsMax)
	fill(&options.HeldBytesMax, DefaultBatcher.HeldBytesMax)
	if options.Linger <= 0 {
		options.Linger = DefaultBatcher.Linger
	}
	return &Batcher{
		client:       c,
		options:      options,
		onError:      onError,
		slots:        make(chan struct{}, options.RequestsMax),
		waitingBytes: frameBytes,
		batches:      map[*batch]struct{}{},
		released:     make(chan struct{}),
	}, nil
}

// Add takes an event. ID, Source and Time are filled in where they are missing, and are the same
// however often the event is sent. While too much is held it waits, until ctx is done. An error says
// that the event was not taken; onError is not told of it.
func (b *Batcher) Add(ctx context.Context, event Event) error {
	event.Specversion = "1.0"
	if event.ID == "" {
		event.ID = uuid.NewString()
	}
	if event.Source == "" {
		event.Source = b.options.Source
	}
	if event.Time == nil {
		event.Time = Ptr(time.Now().UTC())
	}
	text, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("meterline: event %s: %w", event.ID, err)
	}
	one := pending{event, text}
	for {
		released, err := b.take(one)
		if released == nil || err != nil {
			return err
		}
		select {
		case <-released:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take holds the event, or gives the channel to wait for.
func (b *Batcher) take(one pending) (<-chan struct{}, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	size := one.bytes()
	if b.heldBytes > 0 && b.heldBytes+size > b.options.HeldBytesMax {
		return b.released, nil
	}
	b.heldBytes += size
	if b.waitingBytes+size > b.options.BytesMax {
		b.cut()
	}
	b.waiting = append(b.waiting, one)
	b.waitingBytes += size
	if len(b.waiting) >= b.options.EventsMax {
		b.cut()
	} else if b.timer == nil {
		b.timer = time.AfterFunc(b.options.Linger, func() {
			b.mutex.Lock()
			defer b.mutex.Unlock()
			b.cut()
		})
	}
	return nil, nil
}

// cut makes a batch of what waits. The mutex is held.
func (b *Batcher) cut() {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	if len(b.waiting) == 0 {
		return
	}
	made := &batch{b.waiting, make(chan struct{})}
	b.batches[made] = struct{}{}
	b.waiting, b.waitingBytes = nil, frameBytes
	go b.send(made)
}

// Flush sends what waits, and waits until the fate of every event added so far is known or ctx is
// done.
func (b *Batcher) Flush(ctx context.Context) error {
	b.mutex.Lock()
	b.cut()
	under := make([]*batch, 0, len(b.batches))
	for one := range b.batches {
		under = append(under, one)
	}
	b.mutex.Unlock()
	for _, one := range under {
		select {
		case <-one.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Close is Flush, and takes no more.
func (b *Batcher) Close(ctx context.Context) error {
	b.mutex.Lock()
	b.closed = true
	b.mutex.Unlock()
	return b.Flush(ctx)
}

// send sends a batch until every event of it is accepted or told to onError.
func (b *Batcher) send(whole *batch) {
	b.slots <- struct{}{}
	parts := [][]pending{whole.events}
	for len(parts) > 0 {
		part := parts[len(parts)-1]
		parts = parts[:len(parts)-1]
		err := b.post(part)
		switch faulty, rest := divided(part, err); {
		case err == nil:
		case len(faulty) > 0:
			// a batch is taken whole or not at all: the faulty ones must not take others with them
			b.refuse(faulty, err)
			if len(rest) > 0 {
				parts = append(parts, rest)
			}
		case len(part) > 1 && statusOf(err) == http.StatusRequestEntityTooLarge:
			middle := (len(part) + 1) / 2
			parts = append(parts, part[middle:], part[:middle])
		default:
			b.refuse(part, err)
		}
	}
	<-b.slots
	b.settle(whole)
}

func (b *Batcher) settle(whole *batch) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, one := range whole.events {
		b.heldBytes -= one.bytes()
	}
	delete(b.batches, whole)
	close(b.released)
	b.released = make(chan struct{})
	close(whole.done)
}

func (b *Batcher) refuse(events []pending, cause error) {
	for _, one := range events {
		b.onError(&NotAcceptedError{one.event, cause})
	}
}

func (b *Batcher) post(part []pending) error {
	texts := make([][]byte, len(part))
	for place, one := range part {
		texts[place] = one.text
	}
	body := append(append([]byte{'['}, bytes.Join(texts, []byte{','})...), ']')
	answer, err := Check(b.client.IngestMeteringEventsWithBodyWithResponse(
		context.Background(), "application/cloudevents-batch+json", bytes.NewReader(body),
	))
	if err != nil {
		return err
	}
	if answer.StatusCode() != http.StatusAccepted {
		// nothing but the API answers so: a success of something on the way says nothing
		return &ProblemError{Status: answer.StatusCode()}
	}
	return nil
}

// divided are the events that a problem names, and the others.
func divided(part []pending, err error) (faulty, rest []pending) {
	var problem *ProblemError
	if !errors.As(err, &problem) || problem.Problem == nil {
		return nil, part
	}
	named := map[int]bool{}
	for _, one := range problem.Problem.InvalidParameters {
		if one.Index != nil {
			named[*one.Index] = true
		}
	}
	for place, one := range part {
		if named[place] {
			faulty = append(faulty, one)
		} else {
			rest = append(rest, one)
		}
	}
	return faulty, rest
}

func statusOf(err error) int {
	var problem *ProblemError
	if errors.As(err, &problem) {
		return problem.Status
	}
	return 0
}
