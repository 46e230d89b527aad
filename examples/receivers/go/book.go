package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"strings"
	"sync"
)

const digits = 18 // behind the point: all that Meterline has

// message is what is read of a delivery.
type message struct {
	Type   string `json:"type"`
	Report struct {
		Slug string `json:"slug"`
	} `json:"report"`
	Usage []struct {
		ValueText string `json:"valueText"` // exact; value would become a double
	} `json:"usage"`
	Meter struct {
		Aggregation string `json:"aggregation"`
	} `json:"meter"`
	Query struct {
		From    string `json:"from"`
		To      string `json:"to"`
		Subject string `json:"subject"`
	} `json:"query"`
	Run *struct {
		Trigger  string `json:"trigger"`
		Revision int    `json:"revision"`
	} `json:"run"`
}

// row is a line of the book.
type row struct {
	DeliveryID string `json:"delivery_id"`
	Report     string `json:"report"`
	From       string `json:"from"`
	To         string `json:"to"`
	Subject    string `json:"subject"`
	Revision   int    `json:"revision"`
	Value      string `json:"value,omitempty"` // none where groups cannot be added up
	SHA256     string `json:"sha256"`
}

type cell struct{ report, from, to, subject string }

// book is what was booked, as lines of a file: for each (report, window, subject) the highest
// revision stands.
type book struct {
	mutex    sync.Mutex
	file     *os.File
	ids      map[string]bool
	standing map[cell]int
}

func openBook(path string) (*book, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	made := &book{file: file, ids: map[string]bool{}, standing: map[cell]int{}}
	content, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	// What is behind the last line end was torn by a crash: it was not answered.
	whole := bytes.LastIndexByte(content, '\n') + 1
	if err = file.Truncate(int64(whole)); err != nil {
		return nil, err
	}
	for _, line := range bytes.Split(content[:whole], []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var one row
		if err = json.Unmarshal(line, &one); err != nil {
			return nil, err
		}
		made.keep(one)
	}
	return made, nil
}

// take books a delivery durably, and tells what to say of it.
func (b *book) take(id string, m message, body []byte) (string, error) {
	if m.Run.Trigger == "test" {
		return "a test: nothing to book", nil
	}
	value, err := figure(m)
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(body)
	one := row{
		id, m.Report.Slug, m.Query.From, m.Query.To, m.Query.Subject, m.Run.Revision, value,
		hex.EncodeToString(digest[:]),
	}
	line, err := json.Marshal(one)
	if err != nil {
		return "", err
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.ids[id] {
		return id + ": a copy, booked before", nil
	}
	if err = b.add(append(line, '\n')); err != nil {
		return "", err
	}
	words := ""
	if !b.keep(one) {
		words = " (a later revision stands)"
	}
	shown := value
	if shown == "" {
		shown = "(groups that cannot be added up)"
	}
	return fmt.Sprintf("%s %s for %s to %s%s", one.Subject, shown, one.From, one.To, words), nil
}

// add writes a line durably, all of it or nothing: what was not answered is sent again.
func (b *book) add(line []byte) error {
	size, err := b.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err = b.file.Write(line); err == nil {
		err = b.file.Sync()
	}
	if err != nil { // a disk that is nearly full takes a part
		return errors.Join(err, b.file.Truncate(size))
	}
	return nil
}

func (b *book) keep(one row) bool {
	b.ids[one.DeliveryID] = true
	key := cell{one.Report, one.From, one.To, one.Subject}
	if one.Revision <= b.standing[key] {
		return false
	}
	b.standing[key] = one.Revision
	return true
}

// figure is that of a delivery: of several groups the sum, or "" where they cannot be added up.
func figure(m message) (string, error) {
	additive := m.Meter.Aggregation == "SUM" || m.Meter.Aggregation == "COUNT"
	if len(m.Usage) > 1 && !additive {
		return "", nil
	}
	texts := make([]string, len(m.Usage))
	for place, entry := range m.Usage {
		texts[place] = entry.ValueText
	}
	return sum(texts)
}

// sum is exact: floats would not be.
func sum(texts []string) (string, error) {
	total := new(big.Rat)
	for _, text := range texts {
		value, ok := new(big.Rat).SetString(text)
		if !ok {
			return "", fmt.Errorf("%q is no decimal", text)
		}
		total.Add(total, value)
	}
	return strings.TrimSuffix(strings.TrimRight(total.FloatString(digits), "0"), "."), nil
}
