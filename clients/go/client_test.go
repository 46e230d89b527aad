package meterline_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	meterline "github.com/meterline/meterline/clients/go"
	"github.com/meterline/meterline/clients/go/api"
)

const page = `{"data":[],"meta":{"page":{"number":1,"size":20,"total":0}}}`

var json200 = map[string]string{"Content-Type": "application/json"}

func TestWhatPassesByItselfIsTriedAgain(t *testing.T) {
	answers := []answer{
		{status: 503, header: map[string]string{"Retry-After": "1"}},
		{status: 429, header: map[string]string{"Retry-After": "1"}},
		{broken: true},
		{status: 200, header: json200, body: page[:9], broken: true},
		{status: 200, header: json200, body: page},
	}
	s := serving(t, func(_ asked, number int) answer { return answers[number-1] })
	c := client(t, s, meterline.WithAPIKey("ml_secret"))
	got, err := meterline.Check(c.ListMetersWithResponse(context.Background(), nil))
	if err != nil || got.JSON200 == nil || len(got.JSON200.Data) != 0 {
		t.Fatal(got, err)
	}
	all := s.asked()
	same(t, len(all), len(answers))
	for _, one := range all {
		same(t, one.method+" "+one.url, "GET /api/v3/metering/meters")
		same(t, one.header.Get("Authorization"), "Bearer ml_secret")
	}
	for number := range 2 {
		if pause := all[number+1].at.Sub(all[number].at); pause < time.Second {
			t.Errorf("Retry-After has not passed: %v", pause)
		}
	}
}

func TestABodyIsTheSameInEveryAttempt(t *testing.T) {
	s := serving(t, func(_ asked, number int) answer {
		if number < 3 {
			return answer{status: 500}
		}
		return answer{status: 202}
	})
	answered, err := meterline.Check(client(t, s).IngestMeteringEventsWithBodyWithResponse(
		context.Background(), "application/cloudevents+json", strings.NewReader(`{"id":"é"}`),
	))
	if err != nil {
		t.Fatal(err)
	}
	same(t, answered.StatusCode(), 202)
	for _, one := range s.asked() {
		same(t, one.body, `{"id":"é"}`)
		same(t, one.header.Get("Content-Type"), "application/cloudevents+json")
	}
	same(t, len(s.asked()), 3)
}

func TestTheLastAnswerIsAProblem(t *testing.T) {
	s := serving(t, func(asked, int) answer { return problem(503, "unavailable") })
	_, err := meterline.Check(client(t, s).ListMetersWithResponse(context.Background(), nil))
	var failed *meterline.ProblemError
	if !errors.As(err, &failed) {
		t.Fatal(err)
	}
	same(t, failed.Status, 503)
	same(t, failed.Type(), "urn:meterline:problem:unavailable")
	same(t, failed.Problem.Instance, "urn:request:01M7ZMF4YA7D2SQ292V0W9JPT8")
	same(t, len(s.asked()), soon.AttemptsMax)
}

func TestADoneContextEndsItAtOnce(t *testing.T) {
	s := serving(t, func(asked, int) answer {
		return answer{status: 429, header: map[string]string{"Retry-After": "60"}}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := client(t, s).ListMetersWithResponse(ctx, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	same(t, len(s.asked()), 1)
}

func TestARedirectIsNoSuccess(t *testing.T) {
	s := serving(t, func(asked, int) answer {
		return answer{status: 302, header: map[string]string{"Location": "/elsewhere"}}
	})
	_, err := meterline.Check(client(t, s).DeleteMeterWithResponse(context.Background(), "m"))
	var failed *meterline.ProblemError
	if !errors.As(err, &failed) || failed.Status != 302 || failed.Type() != "about:blank" {
		t.Fatal(err)
	}
	same(t, len(s.asked()), 1)
}

func TestDeepObjectParameters(t *testing.T) {
	s := serving(t, func(asked, int) answer { return answer{status: 200, header: json200, body: "{}"} })
	params := &api.ListMetersParams{
		Page:   &api.NumberedPage{Size: meterline.Ptr(5), Number: meterline.Ptr(2)},
		Filter: &api.MeterFilter{Key: &api.TextFilter{Eq: meterline.Ptr("a b&c")}},
	}
	_, err := meterline.Check(client(t, s).ListMetersWithResponse(context.Background(), params))
	if err != nil {
		t.Fatal(err)
	}
	asked, err := url.Parse(s.asked()[0].url)
	if err != nil {
		t.Fatal(err)
	}
	want := url.Values{"page[size]": {"5"}, "page[number]": {"2"}, "filter[key][eq]": {"a b&c"}}
	same(t, asked.Query(), want)
}
