package meterline

import (
	"net/http"
	"testing"
	"time"
)

func TestPausesGrowAreBoundedAndEnd(t *testing.T) {
	away := outcome{status: 503, retryAfter: -1}
	for attempt, least := range []time.Duration{100, 200, 400, 800, 1_600} {
		got, again := DefaultRetry.pause(attempt+1, away, 0)
		if !again || got != least*time.Millisecond {
			t.Errorf("attempt %d: %v %v", attempt+1, got, again)
		}
		if got, _ = DefaultRetry.pause(attempt+1, away, 1); got != 2*least*time.Millisecond {
			t.Errorf("attempt %d: at most %v", attempt+1, got)
		}
	}
	patient := DefaultRetry
	patient.AttemptsMax = 100
	if got, _ := patient.pause(60, away, 1); got != patient.DelayMax {
		t.Errorf("bounded by DelayMax, not %v", got)
	}
	if _, again := DefaultRetry.pause(DefaultRetry.AttemptsMax, away, 0); again {
		t.Error("the last attempt is the last")
	}
}

func TestOnlyWhatMayPassByItselfIsTriedAgain(t *testing.T) {
	for _, status := range []int{200, 202, 301, 400, 401, 403, 404, 409, 413} {
		if _, again := DefaultRetry.pause(1, outcome{status, 0}, 0); again {
			t.Errorf("%d is final", status)
		}
	}
	for _, status := range []int{0, 429, 500, 502, 503, 504} {
		if _, again := DefaultRetry.pause(1, outcome{status, 0}, 0); !again {
			t.Errorf("%d is tried again", status)
		}
	}
}

func TestNoPauseIsShorterThanRetryAfter(t *testing.T) {
	for _, draw := range []float64{0, 0.3, 0.999} {
		got, again := DefaultRetry.pause(1, outcome{429, 7 * time.Second}, draw)
		if !again || got < 7*time.Second || got > 7_200*time.Millisecond {
			t.Errorf("%v %v", got, again)
		}
	}
	if _, again := DefaultRetry.pause(1, outcome{429, DefaultRetry.RetryAfterMax + 1}, 0); again {
		t.Error("one that is too long ends it")
	}
}

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	const at = "Thu, 01 Jan 1970 00:00:05 GMT"
	for _, one := range []struct {
		text, date string
		want       time.Duration
	}{
		{"3", "", 3 * time.Second},
		{at, "", 4 * time.Second},
		{at, "Thu, 01 Jan 1970 00:00:03 GMT", 2 * time.Second},
		{"Thu, 01 Jan 1970 00:00:00 GMT", "", 0},
		{"soon", "", -1},
		{"-3", "", -1},
		{"", "", -1},
	} {
		header := http.Header{"Retry-After": {one.text}, "Date": {one.date}}
		if got := retryAfter(header, time.Unix(1, 0)); got != one.want {
			t.Errorf("%q: %v, want %v", one.text, got, one.want)
		}
	}
}
