// Package meterline is a client of the Meterline API: its typed operations (package api, generated
// from the OpenAPI document), retries, events in batches, and verified deliveries.
package meterline

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/meterline/meterline/clients/go/api"
)

// Client has the operations of the API. Requests that fail for a while are sent again
// (RetryPolicy). It is safe for concurrent use.
type Client struct {
	*api.ClientWithResponses
}

// Option changes how a client works.
type Option func(*options)

type options struct {
	apiKey string
	retry  RetryPolicy
	doer   Doer
}

// WithAPIKey sends the key as "Authorization: Bearer". Keep it on servers: never in apps or logs.
func WithAPIKey(key string) Option {
	return func(o *options) { o.apiKey = key }
}

// WithRetry replaces DefaultRetry.
func WithRetry(policy RetryPolicy) Option {
	return func(o *options) { o.retry = policy }
}

// WithHTTPClient replaces the HTTP client that attempts are made with. It must not follow
// redirects.
func WithHTTPClient(client Doer) Option {
	return func(o *options) { o.doer = client }
}

// New makes a client of the server at baseURL, for example "https://meterline.example".
func New(baseURL string, opts ...Option) (*Client, error) {
	// A redirect is not followed: a POST that becomes a GET on its way would look like a success.
	plain := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	chosen := options{retry: DefaultRetry, doer: plain}
	for _, option := range opts {
		option(&chosen)
	}
	authorize := func(_ context.Context, request *http.Request) error {
		if chosen.apiKey != "" {
			request.Header.Set("Authorization", "Bearer "+chosen.apiKey)
		}
		return nil
	}
	made, err := api.NewClientWithResponses(
		strings.TrimRight(baseURL, "/"),
		api.WithHTTPClient(&retrier{chosen.retry, chosen.doer}),
		api.WithRequestEditorFn(authorize),
	)
	if err != nil {
		return nil, fmt.Errorf("meterline: %w", err)
	}
	return &Client{made}, nil
}

// Ptr is a pointer to a value, as optional members are.
func Ptr[T any](value T) *T {
	return &value
}
