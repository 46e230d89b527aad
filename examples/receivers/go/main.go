// A receiver of Meterline's deliveries: verifies each, books it once, prints what it booked.
//
// README.md beside this file says how to run it. SIGNING_SECRET, PORT, BOOK and LIBRARY are its
// settings.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	svix "github.com/svix/svix-webhooks/go"
)

const bodyBytesMax = 8 * 1024 * 1024 // Meterline's own bound

type webhook interface {
	Verify(payload []byte, headers http.Header) error
}

type receiver struct {
	webhook webhook
	family  string
	book    *book
}

// opened gives a library, and which of the two families of headers it is given: always the three
// of one family, so that the id that is booked is the id that was verified.
func opened(library, secret string) (webhook, string, error) {
	switch library {
	case "svix":
		made, err := svix.NewWebhook(secret)
		return made, "svix", err
	case "standardwebhooks":
		made, err := standardwebhooks.NewWebhook(secret)
		return made, "webhook", err
	}
	return nil, "", errors.New("LIBRARY is svix or standardwebhooks")
}

func (r receiver) verified(header http.Header, body []byte) (string, message, error) {
	signed := http.Header{}
	for _, part := range []string{"id", "timestamp", "signature"} {
		name := r.family + "-" + part
		signed.Set(name, header.Get(name))
	}
	var m message
	if err := r.webhook.Verify(body, signed); err != nil {
		return "", m, err
	}
	if !utf8.Valid(body) {
		return "", m, errors.New("the body is not UTF-8")
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return "", m, err
	}
	if m.Type != "report.meter" {
		return "", m, errors.New("not a message of type report.meter")
	}
	if m.Run == nil {
		return "", m, errors.New("the message has no run")
	}
	return signed.Get(r.family + "-id"), m, nil
}

func (r receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	// As it came: parsed and written anew it is another.
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, bodyBytesMax))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	id, m, err := r.verified(request.Header, body)
	if err != nil {
		fmt.Println("refused:", err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	said, err := r.book.take(id, m, body)
	if err != nil { // not booked: it is sent again
		log.Print(err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	fmt.Println(said)
	w.WriteHeader(http.StatusNoContent)
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func main() {
	secret := os.Getenv("SIGNING_SECRET")
	if strings.TrimPrefix(secret, "whsec_") == "" {
		log.Fatal("SIGNING_SECRET is empty: with an empty key anybody can sign")
	}
	library, family, err := opened(setting("LIBRARY", "svix"), secret)
	if err != nil {
		log.Fatal(err)
	}
	kept, err := openBook(setting("BOOK", "booked.ndjson"))
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+setting("PORT", "9000"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s/\n", listener.Addr())
	server := http.Server{
		Handler:     receiver{library, family, kept},
		ReadTimeout: 15 * time.Second, // as long as Meterline waits
	}
	log.Fatal(server.Serve(listener))
}
