package openai

import (
	"errors"
	"net/http"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider"
	wire "github.com/breakwater-llm/breakwater/internal/wire/openai"
)

var errNoStream = errors.New("a stream was asked for, a body came")

// whole reads an answer that is no stream and checks that it is one. Usage is
// kept of an answer that is no use, since the provider bills it.
func whole(x *provider.Exchange, streamed bool, header http.Header) (*llm.Result, error) {
	body, err := x.ReadAll(maxAnswer)
	if err != nil {
		return x.Result(), x.Failure(err)
	}
	answer, err := wire.ReadCompletion(body)
	result := x.Result()
	result.Usage, result.OutputBytes = answer.Usage, answer.TextBytes
	switch {
	case answer.Failed:
		return result, x.Refused(wire.ReadComplaint(body), body)
	case errors.Is(err, wire.ErrEmptyBody):
		return result, x.Unusable(llm.ClassServerError, llm.ReasonEmptyBody, err)
	case err != nil:
		return result, x.Unusable(llm.ClassServerError, llm.ReasonInvalidBody, err)
	case streamed:
		return result, x.Unusable(llm.ClassServerError, llm.ReasonInvalidBody, errNoStream)
	}
	result.Body, result.ContentType = body, "application/json"
	return result, nil
}

// refused reads a response whose status says no. A body that cannot be read
// leaves the status to speak for itself, unless a clock or the caller ended
// the reading.
func refused(x *provider.Exchange) (*llm.Result, error) {
	body, err := x.ReadAll(maxRefusal)
	if err != nil && x.Ended() {
		return x.Result(), x.Failure(err)
	}
	complaint := wire.ReadComplaint(body)
	complaint.Native = complaint.Native && err == nil
	return x.Result(), x.Refused(complaint, body)
}
