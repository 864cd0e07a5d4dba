package openai_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/porttest"
	"github.com/breakwater-llm/breakwater/internal/provider"
	"github.com/breakwater-llm/breakwater/internal/provider/openai"
	"github.com/breakwater-llm/breakwater/internal/provider/providertest"
)

// checkup makes one health check of a server under a path.
func checkup(t *testing.T, base, path string, timeout time.Duration) (*llm.Result, error) {
	t.Helper()
	client := open(t, openai.Config{BaseURL: base, Health: path, Keys: provider.NewKeys([]string{secret}, nil), Timeouts: patient})
	return client.Send(t.Context(), &llm.Call{
		Operation: llm.OperationHealthCheck, Target: llm.HealthTarget("alpha", "r1"), Timeouts: llm.Timeouts{Total: timeout},
		Signals: &llm.Signals{},
	}, nil)
}

func TestWhatAHealthCheckSends(t *testing.T) {
	t.Parallel()
	upstream := providertest.Serve(t, func(http.ResponseWriter, *http.Request) {})
	for path, want := range map[string]string{
		"":                    "/v1",
		"/models":             "/v1/models",
		"status?deep=1&x=%2F": "/v1/status?deep=1&x=%2F",
		"/a%2Fb/c":            "/v1/a%2Fb/c",
	} {
		if _, err := checkup(t, upstream.URL+"/v1", path, time.Minute); err != nil {
			t.Fatal(err)
		}
		requests := upstream.Requests()
		got := requests[len(requests)-1]
		providertest.Equal(t, "request", http.MethodGet+" "+want, got.Method+" "+got.URL.String())
		providertest.Equal(t, "body", "", got.Sent)
		providertest.Equal(t, "header", http.Header{
			"Accept": {"*/*"}, "Accept-Encoding": {"identity"}, "Authorization": {"Bearer " + secret}, "User-Agent": {"breakwater"},
		}, got.Header)
	}
	for _, path := range []string{"https://evil.example/", "//evil.example/x", "%zz"} {
		if _, err := openai.New(openai.Config{BaseURL: "http://host/v1", Health: path}); err == nil {
			t.Errorf("%q was taken for a path", path)
		}
	}
}

// Whoever answers is there; what a call would count against it counts here too.
func TestWhatAHealthCheckTells(t *testing.T) {
	t.Parallel()
	type verdict struct {
		Outcome llm.Outcome
		Class   llm.FailureClass
		Wait    time.Duration
	}
	good := verdict{Outcome: llm.OutcomeSuccess}
	tests := map[int]verdict{
		200: good, 204: good, 302: good, 400: good, 402: good, 404: good, 405: good, 422: good, 499: good,
		401: {llm.OutcomeNeutral, llm.ClassAuth, 0}, 403: {llm.OutcomeNeutral, llm.ClassAuth, 0}, 407: {llm.OutcomeNeutral, llm.ClassAuth, 0},
		408: {llm.OutcomeFailure, llm.ClassConnection, 0},
		429: {llm.OutcomeFailure, llm.ClassRateLimit, 7 * time.Second},
		500: {llm.OutcomeFailure, llm.ClassServerError, 7 * time.Second}, 503: {llm.OutcomeFailure, llm.ClassServerError, 7 * time.Second},
		501: {llm.OutcomeNeutral, llm.ClassConfiguration, 0},
	}
	for status, want := range tests {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			upstream := providertest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if want.Wait > 0 {
					w.Header().Set("Retry-After", "7")
				}
				w.WriteHeader(status)
			})
			result, err := checkup(t, upstream.URL, "", time.Minute)
			got := verdict{Outcome: llm.OutcomeSuccess}
			if f := llm.AsFailure(err); f != nil {
				got = verdict{f.Outcome(), f.Class, f.RetryAfter}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if result == nil || result.Status != status || result.Usage.Known() {
				t.Errorf("the result is %+v", result)
			}
		})
	}
}

func TestAnAnswerThatDoesNotComeIsNone(t *testing.T) {
	t.Parallel()
	promising := func(w http.ResponseWriter, r *http.Request, more string) {
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, more)
		_ = http.NewResponseController(w).Flush()
	}
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		timeout time.Duration
		want    llm.Reason
	}{
		"silent":  {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 100 * time.Millisecond, llm.ReasonTotalTimeout},
		"stalled": {func(w http.ResponseWriter, r *http.Request) { promising(w, r, "{"); <-r.Context().Done() }, 100 * time.Millisecond, llm.ReasonTotalTimeout},
		"cut":     {func(w http.ResponseWriter, r *http.Request) { promising(w, r, "{"); panic(http.ErrAbortHandler) }, time.Minute, llm.ReasonReset},
		"reset":   {func(w http.ResponseWriter, _ *http.Request) { providertest.Reset(w) }, time.Minute, llm.ReasonReset},
		"long":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 100_000)) }, time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := checkup(t, providertest.Serve(t, tt.handler).URL, "", tt.timeout)
			got := llm.Reason("")
			if f := llm.AsFailure(err); f != nil {
				if got = f.Reason; !f.Trips() {
					t.Errorf("%v does not count", f)
				}
			}
			if got != tt.want {
				t.Errorf("reason %q, want %q", got, tt.want)
			}
		})
	}
	if _, err := checkup(t, "http://"+porttest.Hold(t), "", time.Minute); llm.AsFailure(err) == nil || llm.AsFailure(err).Reason != llm.ReasonRefused {
		t.Errorf("nobody listens: %v", err)
	}
}
