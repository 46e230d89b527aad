// The whole way: define a meter, send events, ask, report, receive, verify, replay.
// Prints what it saw as JSON.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"time"

	meterline "github.com/meterline/meterline/clients/go"
	"github.com/meterline/meterline/clients/go/api"
)

const (
	meterKey = "way_go_tokens"
	slug     = "way-go"
	events   = 600
)

var subjects = []string{"ada", "bob", "cyd"}

type booking struct {
	id, subject, total string
	body               []byte
}

// receiver is one as the contract wants it: 405, 400, or it books the delivery.
type receiver struct {
	mutex   sync.Mutex
	secret  string
	booked  []booking
	refused int
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	changed := bytes.Clone(body)
	changed[len(changed)/2] ^= 1
	_, err = meterline.Verify(changed, request.Header, r.secret)
	if errors.Is(err, meterline.ErrDelivery) {
		r.refused++
	}
	delivery, err := meterline.Verify(body, request.Header, r.secret)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	total := new(big.Rat)
	for _, entry := range delivery.Message.Usage {
		value, _ := new(big.Rat).SetString(entry.ValueText)
		total.Add(total, value)
	}
	subject := delivery.Message.Query.Subject
	r.booked = append(r.booked, booking{delivery.ID, subject, total.RatString(), body})
}

func (r *receiver) bookings() []booking {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.booked)
}

func (r *receiver) await(deliveries int) error {
	return until("deliveries", func() (bool, error) { return len(r.bookings()) >= deliveries, nil })
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	client, err := meterline.New(os.Getenv("METERLINE_URL"),
		meterline.WithAPIKey(os.Getenv("METERLINE_API_KEY")))
	if err != nil {
		return err
	}
	inbox := &receiver{}
	listening := httptest.NewServer(inbox)
	defer listening.Close()

	meter, err := meterline.Check(client.CreateMeterWithResponse(ctx, api.MeterRequest{
		Key:           meterKey,
		Name:          "Tokens",
		Aggregation:   api.AggregationSum,
		EventType:     "way.go",
		ValueProperty: meterline.Ptr("$.tokens"),
		Dimensions:    map[string]string{"model": "$.model"},
	}))
	if err != nil {
		return err
	}
	from := time.Now().UTC().Truncate(time.Hour).Add(-2 * time.Hour)
	window := api.RunRequest{From: from, To: from.Add(time.Hour)}
	if err = send(ctx, client, from); err != nil {
		return err
	}
	usage, err := counted(ctx, client, window)
	if err != nil {
		return err
	}
	runID, err := report(ctx, client, inbox, meter.JSON201.ID, listening.URL, window)
	if err != nil {
		return err
	}
	if err = inbox.await(len(subjects)); err != nil {
		return err
	}
	delivered, err := arrived(ctx, client, runID)
	if err != nil {
		return err
	}
	first := inbox.bookings()[0]
	if _, err = meterline.Check(client.ReplayDeliveryWithResponse(ctx, first.id)); err != nil {
		return err
	}
	if err = inbox.await(len(subjects) + 1); err != nil {
		return err
	}
	return tell(usage, delivered, inbox)
}

// report makes a report and a run of it; the run's id.
func report(
	ctx context.Context, client *meterline.Client, inbox *receiver,
	meterID, url string, window api.RunRequest,
) (string, error) {
	made, err := meterline.Check(client.CreateReportWithResponse(ctx, api.ReportRequest{
		Slug:         slug,
		MeterIDOrKey: meterID,
		Type:         "webhook",
		Schedule:     api.ReportScheduleRequest{Interval: "1d"},
		Query:        &api.ReportQueryRequest{GroupByDimensions: []string{"model"}},
		Endpoint:     api.ReportEndpointRequest{URL: url + "/usage"},
	}))
	if err != nil {
		return "", err
	}
	inbox.mutex.Lock()
	inbox.secret = made.JSON201.SigningSecret
	inbox.mutex.Unlock()
	ran, err := meterline.Check(client.RunReportWithResponse(ctx, slug, window))
	if err != nil {
		return "", err
	}
	return ran.JSON201.ID, nil
}

func send(ctx context.Context, client *meterline.Client, from time.Time) error {
	var mutex sync.Mutex
	var failures []error
	batcher, err := client.NewBatcher(
		meterline.BatcherOptions{Source: "way-go", EventsMax: 100},
		func(e *meterline.NotAcceptedError) {
			mutex.Lock()
			defer mutex.Unlock()
			failures = append(failures, e)
		},
	)
	if err != nil {
		return err
	}
	for n := range events {
		event := meterline.Event{
			ID:      fmt.Sprint("event-", n),
			Type:    "way.go",
			Subject: subjects[n%len(subjects)],
			Time:    meterline.Ptr(from.Add(time.Duration(n) * time.Second)),
			Data:    map[string]any{"tokens": n, "model": []string{"large", "small"}[n%2]},
		}
		if err = batcher.Add(ctx, event); err != nil {
			return err
		}
	}
	if err = batcher.Close(ctx); err != nil {
		return err
	}
	return errors.Join(failures...)
}

// counted asks until all events are counted; the usage by subject.
func counted(
	ctx context.Context, client *meterline.Client, window api.RunRequest,
) (map[string]string, error) {
	usage := map[string]string{}
	question := api.QueryRequest{
		From:              &window.From,
		To:                &window.To,
		GroupByDimensions: []string{"subject"},
	}
	return usage, until("usage", func() (bool, error) {
		answer, err := meterline.Check(client.QueryMeterWithResponse(ctx, meterKey, question))
		if err != nil {
			return false, err
		}
		total := new(big.Rat)
		for _, row := range answer.JSON200.Data {
			usage[row.Dimensions["subject"]] = row.Value
			value, _ := new(big.Rat).SetString(row.Value)
			total.Add(total, value)
		}
		return total.RatString() == fmt.Sprint(events*(events-1)/2), nil
	})
}

// arrived waits until every delivery of the run is delivered; their ids.
func arrived(
	ctx context.Context, client *meterline.Client, runID string,
) (ids []string, err error) {
	params := api.ListDeliveriesParams{
		Page:   &api.CursorPage{Size: meterline.Ptr(10)},
		Filter: &api.DeliveryFilter{Run: &runID},
	}
	err = until("states", func() (bool, error) {
		listed, err := meterline.Check(client.ListDeliveriesWithResponse(ctx, &params))
		if err != nil {
			return false, err
		}
		ids = nil
		for _, one := range listed.JSON200.Data {
			if one.State != "delivered" {
				return false, nil
			}
			ids = append(ids, one.ID)
		}
		return true, nil
	})
	return ids, err
}

func tell(usage map[string]string, delivered []string, inbox *receiver) error {
	all := inbox.bookings()
	first, last := all[0], all[len(all)-1]
	booked, received := map[string]string{}, []string{}
	for _, one := range all {
		booked[one.subject] = one.total
		if !slices.Contains(received, one.id) {
			received = append(received, one.id)
		}
	}
	slices.Sort(received)
	slices.Sort(delivered)
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"usage":     usage,
		"booked":    booked,
		"delivered": delivered,
		"received":  received,
		"refused":   inbox.refused,
		"replayed": map[string]bool{
			"sameId":    last.id == first.id,
			"sameBytes": bytes.Equal(last.body, first.body),
		},
	})
}

func until(what string, look func() (bool, error)) error {
	for range 600 {
		if found, err := look(); found || err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("%s: not within a minute", what)
}
