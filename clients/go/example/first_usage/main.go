// Meter tokens, send a few events, ask for the usage of each customer.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"time"

	meterline "github.com/meterline/meterline/clients/go"
	"github.com/meterline/meterline/clients/go/api"
)

func main() {
	ctx := context.Background()
	client, err := meterline.New(
		cmp.Or(os.Getenv("METERLINE_URL"), "http://127.0.0.1:8888"),
		meterline.WithAPIKey(os.Getenv("METERLINE_API_KEY")),
	)
	if err != nil {
		log.Fatal(err)
	}
	_, err = meterline.Check(client.CreateMeterWithResponse(ctx, api.MeterRequest{
		Key:           "example_tokens",
		Name:          "Tokens",
		Aggregation:   api.AggregationSum,
		EventType:     "example.prompt",
		ValueProperty: meterline.Ptr("$.tokens"),
		Dimensions:    map[string]string{"model": "$.model"},
	}))
	if err != nil {
		log.Fatal(err)
	}

	refused := func(e *meterline.NotAcceptedError) { log.Fatal("not accepted: ", e) }
	events, err := client.NewBatcher(meterline.BatcherOptions{Source: "example"}, refused)
	if err != nil {
		log.Fatal(err)
	}
	for _, one := range []struct{ subject, tokens, model string }{
		{"ada", "250", "small"}, {"ada", "100.5", "large"}, {"bob", "40", "small"},
	} {
		err = events.Add(ctx, meterline.Event{
			Type:    "example.prompt",
			Subject: one.subject,
			Data:    map[string]any{"tokens": one.tokens, "model": one.model},
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	if err = events.Close(ctx); err != nil { // all are durable, or told to `refused`
		log.Fatal(err)
	}

	var usage []api.UsageRow
	for counted := 0; counted < 3; { // events count within seconds, each on its own
		time.Sleep(200 * time.Millisecond)
		answer, err := meterline.Check(client.QueryMeterWithResponse(ctx, "example_tokens",
			api.QueryRequest{GroupByDimensions: []string{"subject"}}))
		if err != nil {
			log.Fatal(err)
		}
		usage, counted = answer.JSON200.Data, 0
		for _, row := range usage {
			counted += row.Counted
		}
	}
	for _, row := range usage {
		fmt.Println(row.Dimensions["subject"], row.Value)
	}
}
