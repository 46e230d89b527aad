package meterline_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	meterline "github.com/meterline/meterline/clients/go"
)

type asked struct {
	method, url, body string
	header            http.Header
	at                time.Time
}

type answer struct {
	status int
	header map[string]string
	body   string
	broken bool // break the connection instead, in the middle of the answer if there is a status
}

type server struct {
	url   string
	mutex sync.Mutex
	got   []asked
}

func (s *server) asked() []asked {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append([]asked(nil), s.got...)
}

// serving answers by give, which is told the request and its number from 1.
func serving(t *testing.T, give func(asked, int) answer) *server {
	t.Helper()
	made := &server{}
	handle := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		one := asked{r.Method, r.URL.RequestURI(), string(body), r.Header, time.Now()}
		made.mutex.Lock()
		made.got = append(made.got, one)
		number := len(made.got)
		made.mutex.Unlock()
		given := give(one, number)
		if given.broken && given.status == 0 {
			panic(http.ErrAbortHandler)
		}
		for name, value := range given.header {
			w.Header().Set(name, value)
		}
		if given.broken {
			w.Header().Set("Content-Length", "1000")
		}
		w.WriteHeader(given.status)
		_, _ = io.WriteString(w, given.body)
		if given.broken {
			panic(http.ErrAbortHandler)
		}
	}
	listening := httptest.NewServer(http.HandlerFunc(handle))
	t.Cleanup(listening.Close)
	made.url = listening.URL
	return made
}

var soon = meterline.RetryPolicy{
	AttemptsMax:    5,
	DelayMin:       time.Millisecond,
	DelayMax:       4 * time.Millisecond,
	RetryAfterMax:  time.Minute,
	AttemptTimeout: 10 * time.Second,
}

func client(t *testing.T, s *server, options ...meterline.Option) *meterline.Client {
	t.Helper()
	options = append([]meterline.Option{meterline.WithRetry(soon)}, options...)
	made, err := meterline.New(s.url+"/", options...)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func problem(status int, name string, indexes ...int) answer {
	type fault struct {
		Field  string `json:"field"`
		Reason string `json:"reason"`
		Source string `json:"source"`
		Index  int    `json:"index"`
	}
	faults := []fault{}
	for _, index := range indexes {
		faults = append(faults, fault{"type", "r", "body", index})
	}
	body, err := json.Marshal(map[string]any{
		"type":               "urn:meterline:problem:" + name,
		"title":              name,
		"status":             status,
		"detail":             "words",
		"instance":           "urn:request:01M7ZMF4YA7D2SQ292V0W9JPT8",
		"invalid_parameters": faults,
	})
	if err != nil {
		panic(err)
	}
	header := map[string]string{"Content-Type": "application/problem+json"}
	return answer{status: status, header: header, body: string(body)}
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}
