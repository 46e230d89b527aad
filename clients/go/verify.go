package meterline

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/meterline/meterline/clients/go/api"
)

// ErrDelivery is the cause of every error of Verify that is the sender's fault: answer 400.
var ErrDelivery = errors.New("meterline: not a delivery to be trusted")

// Delivery is one whose signature is right.
type Delivery struct {
	ID      string // the same for each attempt and each replay: book one ID once
	Message api.ReportMessage
}

// Verify gives the delivery in a request to a report's endpoint. body is the request's as it came:
// parsed and written anew it has other bytes, and another signature.
//
// Both header families are understood, "webhook-*" and "svix-*". The error wraps ErrDelivery if the
// signature is wrong, is older than five minutes, or the message is no report.
func Verify(body []byte, header http.Header, signingSecret string) (*Delivery, error) {
	if strings.TrimPrefix(signingSecret, "whsec_") == "" {
		// with an empty key anybody can sign
		return nil, errors.New("meterline: the signing secret is empty")
	}
	webhook, err := standardwebhooks.NewWebhook(signingSecret)
	if err != nil {
		return nil, fmt.Errorf("meterline: signing secret: %w", err)
	}
	named, err := signatureHeaders(header)
	if err != nil {
		return nil, err
	}
	if err = webhook.Verify(body, named); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDelivery, err)
	}
	delivery := Delivery{ID: named.Get(standardwebhooks.HeaderWebhookID)}
	if err = json.Unmarshal(body, &delivery.Message); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDelivery, err)
	}
	if delivery.Message.Type != "report.meter" {
		return nil, fmt.Errorf("%w: its type is not report.meter", ErrDelivery)
	}
	return &delivery, nil
}

// signatureHeaders are all three of one family: a set mixed of both was not sent by anybody.
func signatureHeaders(header http.Header) (http.Header, error) {
	for _, family := range []string{"webhook", "svix"} {
		id := header.Get(family + "-id")
		timestamp := header.Get(family + "-timestamp")
		signature := header.Get(family + "-signature")
		if id != "" && timestamp != "" && signature != "" {
			named := http.Header{}
			named.Set(standardwebhooks.HeaderWebhookID, id)
			named.Set(standardwebhooks.HeaderWebhookTimestamp, timestamp)
			named.Set(standardwebhooks.HeaderWebhookSignature, signature)
			return named, nil
		}
	}
	return nil, fmt.Errorf("%w: it has no signature headers", ErrDelivery)
}
