package meterline_test

import (
	"context"
	"net/http"
	"reflect"
	"testing"
	"time"

	meterline "github.com/meterline/meterline/clients/go"
)

func TestLimitsOfThePlanAreReadFromAnAnswer(t *testing.T) {
	header := map[string]string{
		"Content-Type":     "application/json",
		"RateLimit-Policy": `"requests";q=60;w=60, "events";q=100000;w=3600`,
		"RateLimit":        `"requests";r=59;t=1, "events";r=99900;t=4`,
	}
	s := serving(t, func(asked, int) answer { return answer{status: 200, header: header, body: page} })
	got, err := meterline.Check(client(t, s).ListMetersWithResponse(context.Background(), nil))
	if err != nil {
		t.Fatal(err)
	}
	want := []meterline.RateLimit{
		{Name: "requests", Quota: 60, Window: time.Minute, Remaining: 59, Reset: time.Second},
		{Name: "events", Quota: 100_000, Window: time.Hour, Remaining: 99_900, Reset: 4 * time.Second},
	}
	if limits := meterline.RateLimits(got.HTTPResponse.Header); !reflect.DeepEqual(limits, want) {
		t.Fatal(limits)
	}
}

func TestWithoutLimitsThereAreNone(t *testing.T) {
	for _, header := range []http.Header{
		{},
		{"Ratelimit": {`"requests";r=1;t=1`}},
		{"Ratelimit-Policy": {`"requests";q=60;w=60`}, "Ratelimit": {"rubbish"}},
		{"Ratelimit-Policy": {"rubbish"}, "Ratelimit": {`"requests";r=1;t=1`}},
	} {
		if limits := meterline.RateLimits(header); len(limits) != 0 {
			t.Error(header, limits)
		}
	}
}
