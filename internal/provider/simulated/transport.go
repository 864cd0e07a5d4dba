package simulated

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"syscall"
	"time"

	wire "github.com/breakwater-llm/breakwater/internal/wire/openai"
)

// slowdown is how much slower mode slow is.
const slowdown = 10

// transport answers requests as a server across the network would, for the
// client above it.
type transport struct{ model *Model }

// RoundTrip answers one request by the state of the model.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	defer req.Body.Close()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	announce(ctx)

	state := t.model.next()
	if state.Mode == ModeSlow {
		state.Latency *= slowdown
		state.TokensPerSecond /= slowdown
	}
	switch state.Mode {
	case ModeHang:
		<-ctx.Done()
		return nil, ctx.Err()
	case ModeReset:
		return nil, fmt.Errorf("simulated: %w", syscall.ECONNRESET)
	}
	if err := sleep(ctx, state.Latency); err != nil {
		return nil, err
	}
	switch state.Mode {
	case ModeError:
		return refusal(req, state, state.Status), nil
	case ModeRateLimit:
		return refusal(req, state, http.StatusTooManyRequests), nil
	}
	if req.Method == http.MethodGet { // whether it is there
		return response(req, http.StatusOK, "application/json", []byte(`{"object":"list","data":[]}`)), nil
	}
	facts, err := wire.ReadFacts(body)
	if err != nil {
		return malformed(req, err), nil
	}
	return answer(req, state, facts), nil
}

// announce tells the attempt's clocks what a real transport would: that there
// is a connection and that the request has been written.
func announce(ctx context.Context) {
	trace := httptrace.ContextClientTrace(ctx)
	if trace == nil {
		return
	}
	if trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	if trace.WroteHeaders != nil {
		trace.WroteHeaders()
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refusal is an error answer.
func refusal(req *http.Request, state State, status int) *http.Response {
	e := wire.Error{Message: "The simulated model was told to fail.", Type: "server_error"}
	if status < http.StatusInternalServerError {
		e.Type = "invalid_request_error"
	}
	if status == http.StatusTooManyRequests {
		e = wire.Error{Message: "The simulated model was told to limit the rate.", Type: "rate_limit_error", Code: "rate_limit_exceeded"}
	}
	resp := response(req, status, "application/json", wire.AppendError(nil, e))
	if state.RetryAfter > 0 {
		resp.Header.Set("Retry-After", strconv.Itoa(int(math.Ceil(state.RetryAfter.Seconds()))))
		resp.Header.Set("Retry-After-Ms", strconv.FormatInt(state.RetryAfter.Milliseconds(), 10))
	}
	return resp
}

func malformed(req *http.Request, err error) *http.Response {
	e := wire.Error{Message: err.Error(), Type: "invalid_request_error"}
	return response(req, http.StatusBadRequest, "application/json", wire.AppendError(nil, e))
}

func response(req *http.Request, status int, mediaType string, body []byte) *http.Response {
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {mediaType}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: req,
	}
}
