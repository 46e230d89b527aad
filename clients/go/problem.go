package meterline

import (
	"encoding/json"
	"fmt"

	"github.com/meterline/meterline/clients/go/api"
)

// ProblemError is an answer that is no success. Branch on Status and Type, log Problem.Instance;
// Problem.Detail is for people (RFC 9457).
type ProblemError struct {
	Status  int
	Problem *api.Problem // nil if what answered was not the API, a proxy for instance
}

func (e *ProblemError) Error() string {
	if e.Problem == nil {
		return fmt.Sprintf("meterline: %d without a problem", e.Status)
	}
	return fmt.Sprintf("meterline: %d %s: %s", e.Status, e.Problem.Type, e.Problem.Detail)
}

// Type is the stable problem type, a URI; "about:blank" where there is none.
func (e *ProblemError) Type() string {
	if e.Problem == nil {
		return "about:blank"
	}
	return string(e.Problem.Type)
}

// Answer is what each operation of Client returns.
type Answer interface {
	StatusCode() int
	GetBody() []byte
}

// Check gives back what a call returned, and its error: a *ProblemError where the answer is no
// success.
//
//	meter, err := meterline.Check(client.GetMeterWithResponse(ctx, "tokens"))
func Check[A Answer](answer A, err error) (A, error) {
	if err != nil {
		return answer, err
	}
	return answer, problemOf(answer.StatusCode(), answer.GetBody())
}

func problemOf(status int, body []byte) error {
	if status >= 200 && status < 300 {
		return nil
	}
	problem := new(api.Problem)
	if json.Unmarshal(body, problem) != nil || problem.Type == "" {
		problem = nil
	}
	return &ProblemError{status, problem}
}
