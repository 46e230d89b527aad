package meterline_test

import (
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	meterline "github.com/meterline/meterline/clients/go"
)

const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	report = `{"type":"report.meter","query":{"subject":"é"},` +
		`"usage":[{"value":0.1234567890123456789,"valueText":"0.123456789012345679"}]}`
)

func signed(t *testing.T, body, family string, at time.Time) http.Header {
	t.Helper()
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := webhook.Sign("dlv_1", at, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	header.Set(family+"-id", "dlv_1")
	header.Set(family+"-timestamp", strconv.FormatInt(at.Unix(), 10))
	header.Set(family+"-signature", signature)
	return header
}

func refused(t *testing.T, body string, header http.Header) {
	t.Helper()
	if _, err := meterline.Verify([]byte(body), header, secret); !errors.Is(err, meterline.ErrDelivery) {
		t.Fatalf("%q with %v: %v", body, header, err)
	}
}

func TestEitherFamilyOfHeaders(t *testing.T) {
	for _, family := range []string{"svix", "webhook"} {
		delivery, err := meterline.Verify([]byte(report), signed(t, report, family, time.Now()), secret)
		if err != nil {
			t.Fatal(err)
		}
		same(t, delivery.ID, "dlv_1")
		same(t, delivery.Message.Query.Subject, "é")
		same(t, delivery.Message.Usage[0].Value, "0.1234567890123456789")
	}
}

func TestOneOfSeveralSignaturesIsEnough(t *testing.T) {
	header := signed(t, report, "svix", time.Now())
	header.Set("svix-signature", "v1,bm9wZQ== v1a,eA== "+header.Get("svix-signature"))
	if _, err := meterline.Verify([]byte(report), header, secret); err != nil {
		t.Fatal(err)
	}
}

func TestAnyChangedByteIsRefused(t *testing.T) {
	header := signed(t, report, "svix", time.Now())
	for place := range len(report) {
		for _, mask := range []byte{1, 0x80} {
			changed := []byte(report)
			changed[place] ^= mask
			refused(t, string(changed), header)
		}
	}
}

func TestWhatIsOldUnsignedMixedMisformedOrNoReportIsRefused(t *testing.T) {
	refused(t, report, signed(t, report, "svix", time.Now().Add(-6*time.Minute)))
	refused(t, report, http.Header{})
	mixed := signed(t, report, "svix", time.Now())
	mixed.Set("webhook-id", mixed.Get("svix-id"))
	mixed.Del("svix-id")
	refused(t, report, mixed)
	for _, signature := range []string{"v1", "v1,,", "v1,not base64", "v2,eA==", " "} {
		header := signed(t, report, "svix", time.Now())
		header.Set("svix-signature", signature)
		refused(t, report, header)
	}
	for _, body := range []string{`{"type":"report.other"}`, "[]", "null", "not JSON", ""} {
		refused(t, body, signed(t, body, "svix", time.Now()))
	}
}

func TestASecretThatIsNoneIsAMistakeOfTheProgram(t *testing.T) {
	for _, none := range []string{"", "whsec_", "whsec_%%%"} {
		_, err := meterline.Verify([]byte(report), signed(t, report, "svix", time.Now()), none)
		if err == nil || errors.Is(err, meterline.ErrDelivery) {
			t.Fatal(none, err)
		}
	}
}
