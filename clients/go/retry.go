package meterline

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Doer sends a request, as *http.Client does.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// RetryPolicy says how often and how soon a request that failed is sent again.
type RetryPolicy struct {
	AttemptsMax    int           // times that a request is sent at most, the first included
	DelayMin       time.Duration // pause after the first failure; it doubles with each further one
	DelayMax       time.Duration // longest pause that the client chooses by itself
	RetryAfterMax  time.Duration // longest Retry-After that is waited for; else the answer is final
	AttemptTimeout time.Duration // for one attempt, from connecting to the last byte
}

// DefaultRetry is the policy of a client that is given no other.
var DefaultRetry = RetryPolicy{
	AttemptsMax:    6,
	DelayMin:       200 * time.Millisecond,
	DelayMax:       20 * time.Second,
	RetryAfterMax:  2 * time.Minute,
	AttemptTimeout: time.Minute,
}

// outcome of one attempt; status 0 where there was no answer.
type outcome struct {
	status     int
	retryAfter time.Duration // negative: not said
}

// pause before the next attempt, and whether there is one. attempt counts from 1, draw is random in
// [0, 1). At least half of each pause is kept, so that a server that is down is left alone; after
// Retry-After the pause comes on top of it, so that its senders do not all come back together.
func (p RetryPolicy) pause(attempt int, came outcome, draw float64) (time.Duration, bool) {
	again := came.status == 0 || came.status == http.StatusTooManyRequests || came.status >= 500
	if !again || attempt >= p.AttemptsMax {
		return 0, false
	}
	grown := p.DelayMax
	if shift := attempt - 1; shift < 30 && p.DelayMin<<shift < p.DelayMax {
		grown = p.DelayMin << shift
	}
	if came.retryAfter < 0 {
		return grown/2 + time.Duration(draw*float64(grown/2)), true
	}
	if came.retryAfter > p.RetryAfterMax {
		return 0, false
	}
	return came.retryAfter + time.Duration(draw*float64(grown)), true
}

// retryAfter is the header's pause: seconds or a date (RFC 9110, 10.2.3), the latter by the
// server's clock. Negative where it is not said.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return -1
	}
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now))
}

type retrier struct {
	policy RetryPolicy
	doer   Doer
}

// Do sends the request until its answer is final. The answer is read to its end before it is handed
// on, for a connection can also break in the middle of one.
func (r *retrier) Do(request *http.Request) (*http.Response, error) {
	var body []byte
	if request.Body != nil {
		var err error
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
		if err = request.Body.Close(); err != nil {
			return nil, err
		}
	}
	ctx := request.Context()
	for attempt := 1; ; attempt++ {
		answer, err := r.once(ctx, request, body)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		came := outcome{retryAfter: -1}
		if err == nil {
			came = outcome{answer.StatusCode, retryAfter(answer.Header, time.Now())}
		}
		pause, again := r.policy.pause(attempt, came, rand.Float64())
		if !again {
			return answer, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

func (r *retrier) once(
	ctx context.Context, request *http.Request, body []byte,
) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, r.policy.AttemptTimeout)
	defer cancel()
	sent := request.Clone(ctx)
	if request.Body != nil {
		sent.Body = io.NopCloser(bytes.NewReader(body))
		sent.ContentLength = int64(len(body))
		sent.GetBody = func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(body)), nil
		}
	}
	answer, err := r.doer.Do(sent)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(answer.Body)
	if closeErr := answer.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(content))
	return answer, nil
}
