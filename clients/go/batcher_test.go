package meterline_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	meterline "github.com/meterline/meterline/clients/go"
)

var taken = answer{status: 202}

func take(asked, int) answer { return taken }

type sent struct {
	ID     string         `json:"id"`
	Source string         `json:"source"`
	Time   time.Time      `json:"time"`
	Spec   string         `json:"specversion"`
	Data   map[string]any `json:"data"`
}

func events(one asked) (all []sent) {
	if err := json.Unmarshal([]byte(one.body), &all); err != nil {
		panic(err)
	}
	return all
}

func ids(one asked) (all []string) {
	for _, event := range events(one) {
		all = append(all, event.ID)
	}
	return all
}

type bench struct {
	*meterline.Batcher
	server  *server
	mutex   sync.Mutex
	refused []*meterline.NotAcceptedError
}

func batching(t *testing.T, give func(asked, int) answer, options meterline.BatcherOptions) *bench {
	t.Helper()
	made := &bench{server: serving(t, give)}
	options.Source = "test"
	var err error
	made.Batcher, err = client(t, made.server).NewBatcher(options, func(e *meterline.NotAcceptedError) {
		made.mutex.Lock()
		defer made.mutex.Unlock()
		made.refused = append(made.refused, e)
	})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (b *bench) add(t *testing.T, id string, size int) {
	t.Helper()
	data := map[string]any{"x": strings.Repeat("x", size)}
	event := meterline.Event{ID: id, Type: "t", Subject: "s", Data: data}
	if err := b.Add(context.Background(), event); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) flush(t *testing.T) (batches [][]string) {
	t.Helper()
	if err := b.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, one := range b.server.asked() {
		batches = append(batches, ids(one))
	}
	return batches
}

func TestEventsTravelTogetherOnceTheyAreEnoughOrHaveWaited(t *testing.T) {
	b := batching(t, take, meterline.BatcherOptions{EventsMax: 3, Linger: 20 * time.Millisecond})
	for number := range 4 {
		b.add(t, strconv.Itoa(number), 0)
	}
	for len(b.server.asked()) < 2 {
		time.Sleep(time.Millisecond) // nobody flushes: the second batch goes by itself
	}
	got := b.flush(t)
	slices.SortFunc(got, func(a, b []string) int { return len(b) - len(a) })
	same(t, got, "[[0 1 2] [3]]")
	one := b.server.asked()[0]
	same(t, one.header.Get("Content-Type"), "application/cloudevents-batch+json")
	same(t, one.url, "/api/v3/metering/events")
}

func TestABodyIsNeverLargerThanSaid(t *testing.T) {
	b := batching(t, take, meterline.BatcherOptions{BytesMax: 1_000, RequestsMax: 1})
	for number, size := range []int{300, 300, 300, 2_000, 1} {
		b.add(t, strconv.Itoa(number), size)
	}
	got := b.flush(t)
	slices.SortFunc(got, slices.Compare)
	same(t, got, "[[0 1] [2] [3] [4]]")
	for _, one := range b.server.asked() {
		if len(one.body) > 1_000 && len(ids(one)) > 1 {
			t.Errorf("%d bytes of %v", len(one.body), ids(one))
		}
	}
}

func TestWhatEveryEventMustHaveIsFilledInOnce(t *testing.T) {
	b := batching(t, func(_ asked, number int) answer {
		if number == 1 {
			return answer{status: 503}
		}
		return taken
	}, meterline.BatcherOptions{})
	data := map[string]any{"n": 1}
	if err := b.Add(context.Background(), meterline.Event{Type: "t", Subject: "s", Data: data}); err != nil {
		t.Fatal(err)
	}
	data["n"] = 2
	b.flush(t)
	all := b.server.asked()
	same(t, len(all), 2)
	same(t, all[0].body, all[1].body)
	event := events(all[0])[0]
	same(t, []any{event.Spec, event.Source, event.Data["n"], len(event.ID)}, []any{"1.0", "test", 1, 36})
	if since := time.Since(event.Time); since < 0 || since > time.Minute {
		t.Error(event.Time)
	}
}

func TestAFaultyEventDoesNotTakeOthersWithIt(t *testing.T) {
	b := batching(t, func(one asked, _ int) answer {
		for place, id := range ids(one) {
			if strings.HasPrefix(id, "bad") {
				return problem(400, "invalid-event", place)
			}
		}
		return taken
	}, meterline.BatcherOptions{})
	for _, id := range []string{"1", "bad2", "3", "bad4"} {
		b.add(t, id, 0)
	}
	same(t, b.flush(t), "[[1 bad2 3 bad4] [1 3 bad4] [1 3]]")
	same(t, b.refusedIDs(), "[bad2 bad4]")
	var cause *meterline.ProblemError
	if !errors.As(b.refused[0], &cause) || cause.Status != 400 {
		t.Fatal(b.refused[0])
	}
}

func TestABatchThatIsTooLargeIsHalved(t *testing.T) {
	b := batching(t, func(one asked, _ int) answer {
		if len(ids(one)) > 1 {
			return problem(413, "body-too-large")
		}
		return taken
	}, meterline.BatcherOptions{})
	for _, id := range []string{"1", "2", "3"} {
		b.add(t, id, 0)
	}
	same(t, b.flush(t), "[[1 2 3] [1 2] [1] [2] [3]]")
	same(t, b.refusedIDs(), "[]")
}

func TestWhatCouldNotBeSentIsToldEventByEvent(t *testing.T) {
	for _, given := range []answer{{broken: true}, {status: 200, body: "{}"}, problem(401, "unauthenticated")} {
		b := batching(t, func(asked, int) answer { return given }, meterline.BatcherOptions{})
		b.add(t, "1", 0)
		b.add(t, "2", 0)
		if err := b.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		same(t, b.refusedIDs(), "[1 2]")
	}
}

func TestWhatIsNotTakenIsToldAtOnce(t *testing.T) {
	b := batching(t, take, meterline.BatcherOptions{})
	odd := meterline.Event{Type: "t", Subject: "s", Data: map[string]any{"n": math.NaN()}}
	if err := b.Add(context.Background(), odd); err == nil {
		t.Error("NaN is no JSON")
	}
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	event := meterline.Event{Type: "t", Subject: "s"}
	if err := b.Add(context.Background(), event); !errors.Is(err, meterline.ErrClosed) {
		t.Error(err)
	}
	same(t, len(b.server.asked()), 0)
}

func TestAddWaitsWhileTooMuchIsHeld(t *testing.T) {
	free := make(chan struct{})
	b := batching(t, func(asked, int) answer { <-free; return taken }, meterline.BatcherOptions{
		EventsMax: 1, RequestsMax: 1, HeldBytesMax: 500,
	})
	b.add(t, "1", 300)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	data := map[string]any{"x": strings.Repeat("x", 300)}
	err := b.Add(ctx, meterline.Event{ID: "2", Type: "t", Subject: "s", Data: data})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	close(free)
	b.add(t, "3", 300)
	same(t, b.flush(t), "[[1] [3]]")
}

func TestABatcherNeedsToTellOfErrors(t *testing.T) {
	c := client(t, serving(t, take))
	if _, err := c.NewBatcher(meterline.BatcherOptions{Source: "s"}, nil); err == nil {
		t.Error("no onError")
	}
	if _, err := c.NewBatcher(meterline.BatcherOptions{}, func(*meterline.NotAcceptedError) {}); err == nil {
		t.Error("no Source")
	}
}

func (b *bench) refusedIDs() (all []string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, one := range b.refused {
		all = append(all, one.Event.ID)
	}
	slices.Sort(all)
	return all
}
