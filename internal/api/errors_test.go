package api_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

func failure(class llm.FailureClass, reason llm.Reason, change ...func(*llm.Failure)) *llm.Failure {
	f := &llm.Failure{Class: class, Reason: reason, Target: targetA}
	for _, alter := range change {
		alter(f)
	}
	return f
}

func status(code int) func(*llm.Failure) { return func(f *llm.Failure) { f.Status = code } }

func retryAfter(d time.Duration) func(*llm.Failure) {
	return func(f *llm.Failure) { f.RetryAfter = d }
}

func openedBy(class llm.FailureClass) func(*llm.Failure) {
	return func(f *llm.Failure) { f.OpenedBy = class }
}

func exhausted(failures ...*llm.Failure) error { return &llm.ExhaustedError{Failures: failures} }

// told is what a client sees of a failed call, but for the words.
type told struct {
	Status                  int
	Type, Code              string
	RetryAfter, RetryMS     string
	ShouldRetry             string
	Attempts, Target, CType string
}

func TestAFailedCallIsAnsweredByItsRowOfTheErrorTable(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err  error
		want told
	}{
		"every candidate timed out": {
			exhausted(failure(llm.ClassConnection, llm.ReasonConnectTimeout), failure(llm.ClassConnection, llm.ReasonTotalTimeout)),
			told{Status: 504, Type: "upstream_error", Code: "upstream_timeout", ShouldRetry: "false"},
		},
		"request_timeout passed": {
			failure(llm.ClassCancelled, llm.ReasonRequestTimeout),
			told{Status: 504, Type: "upstream_error", Code: "upstream_timeout", ShouldRetry: "false"},
		},
		"the caller's deadline passed": {
			failure(llm.ClassCancelled, llm.ReasonCallerTimeout),
			told{Status: 504, Type: "upstream_error", Code: "caller_timeout", ShouldRetry: "false"},
		},
		"every candidate rate limited, the sooner recovery is told": {
			exhausted(failure(llm.ClassRateLimit, llm.ReasonRateLimited, status(429), retryAfter(7*time.Second)),
				failure(llm.ClassCircuitOpen, llm.ReasonCircuitOpen, openedBy(llm.ClassRateLimit), retryAfter(1500*time.Millisecond))),
			told{Status: 429, Type: "rate_limit_error", Code: "upstream_rate_limited", RetryAfter: "2", RetryMS: "1500"},
		},
		"a rate limit without a hint": {
			failure(llm.ClassRateLimit, llm.ReasonRateLimited, status(429)),
			told{Status: 429, Type: "rate_limit_error", Code: "upstream_rate_limited", ShouldRetry: "false"},
		},
		"a circuit is open for ten seconds": {
			exhausted(failure(llm.ClassServerError, llm.ReasonUpstreamStatus, status(500)),
				failure(llm.ClassCircuitOpen, llm.ReasonCircuitOpen, openedBy(llm.ClassServerError), retryAfter(10*time.Second))),
			told{Status: 503, Type: "service_unavailable_error", Code: "circuit_open", RetryAfter: "10", RetryMS: "10000"},
		},
		"a circuit is open for longer": {
			failure(llm.ClassCircuitOpen, llm.ReasonCircuitOpen, retryAfter(10*time.Second+time.Nanosecond)),
			told{Status: 503, Type: "service_unavailable_error", Code: "circuit_open", RetryAfter: "11", RetryMS: "10001", ShouldRetry: "false"},
		},
		"a wait under a millisecond": {
			failure(llm.ClassCircuitOpen, llm.ReasonProbing, retryAfter(time.Microsecond)),
			told{Status: 503, Type: "service_unavailable_error", Code: "circuit_open", RetryAfter: "1", RetryMS: "1"},
		},
		"every bulkhead is full": {
			exhausted(failure(llm.ClassSaturated, llm.ReasonBulkheadFull), failure(llm.ClassSaturated, llm.ReasonBulkheadFull)),
			told{Status: 503, Type: "service_unavailable_error", Code: "overloaded", ShouldRetry: "false"},
		},
		"the last failure was a 503": {
			exhausted(failure(llm.ClassConnection, llm.ReasonReset), failure(llm.ClassServerError, llm.ReasonUpstreamStatus, status(503), retryAfter(3*time.Second))),
			told{Status: 503, Type: "service_unavailable_error", Code: "upstream_unavailable", RetryAfter: "3", RetryMS: "3000"},
		},
		"the last failure was an overload inside a 200": {
			failure(llm.ClassServerError, llm.ReasonOverloaded, status(200)),
			told{Status: 503, Type: "service_unavailable_error", Code: "upstream_unavailable", ShouldRetry: "false"},
		},
		"anything else upstream": {
			exhausted(failure(llm.ClassConnection, llm.ReasonReset), failure(llm.ClassServerError, llm.ReasonUpstreamStatus, status(500), retryAfter(5*time.Second))),
			told{Status: 502, Type: "upstream_error", Code: "upstream_failed", ShouldRetry: "false"},
		},
		"our credentials are refused (CLS-11)": {
			failure(llm.ClassAuth, llm.ReasonForbidden, status(403)),
			told{Status: 502, Type: "upstream_error", Code: "upstream_auth", ShouldRetry: "false"},
		},
		"our set-up is wrong": {
			failure(llm.ClassConfiguration, llm.ReasonModelNotFound, status(404)),
			told{Status: 502, Type: "upstream_error", Code: "upstream_configuration", ShouldRetry: "false"},
		},
		"our credit is used up": {
			failure(llm.ClassQuota, llm.ReasonQuotaExhausted, status(429)),
			told{Status: 502, Type: "upstream_error", Code: "upstream_quota", ShouldRetry: "false"},
		},
		"an upstream's 499 (CLS-11)": {
			failure(llm.ClassUnknown, llm.ReasonUpstreamStatus, status(499)),
			told{Status: 502, Type: "upstream_error", Code: "upstream_unknown", ShouldRetry: "false"},
		},
		"the end of draining": {
			failure(llm.ClassCancelled, llm.ReasonShutdown),
			told{Status: 503, Type: "service_unavailable_error", Code: "shutting_down", RetryAfter: "1", RetryMS: "1000"},
		},
		"a panic that the pipeline caught": {
			failure(llm.ClassUnknown, llm.ReasonPanic),
			told{Status: 500, Type: "server_error", Code: "internal_error"},
		},
		"an error without a class": {
			errors.New("a fault of ours"),
			told{Status: 500, Type: "server_error", Code: "internal_error"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := setup(t, failing(tc.err)).chat(t, nil)
			tc.want.Attempts, tc.want.CType = "1", "application/json"
			if diff := cmp.Diff(tc.want, seen(t, got)); diff != "" {
				t.Errorf("answer (-want +got):\n%s\n%s", diff, got.body)
			}
			if p := problemOf(t, got.body); p.Message == "" || p.Param != nil {
				t.Errorf("message %q, param %v; want words and no param", p.Message, p.Param)
			}
		})
	}
}

func seen(t *testing.T, r reply) told {
	t.Helper()
	p := problemOf(t, r.body)
	return told{
		Status: r.status, Type: p.Type, Code: p.code(),
		RetryAfter: r.header.Get("Retry-After"), RetryMS: r.header.Get("retry-after-ms"), ShouldRetry: r.header.Get("x-should-retry"),
		Attempts: r.header.Get("X-Breakwater-Attempts"), Target: r.header.Get("X-Breakwater-Target"), CType: r.header.Get("Content-Type"),
	}
}

func TestARefusalOfTheRequestItselfIsRelayed(t *testing.T) {
	t.Parallel()
	const passed = `{"error":{"message":"no such role","type":"invalid_request_error","param":"messages[0].role","code":null},"extra":1}`
	tests := map[string]struct {
		failure     *llm.Failure
		wantStatus  int
		wantBody    string // exact, or
		wantProblem problem
		wantRetry   string
	}{
		"its body passes unchanged when the provider says so": {
			failure:    failure(llm.ClassClientError, llm.ReasonInvalidRequest, status(422), upstream(llm.UpstreamError{Message: "other words", Body: []byte(passed)})),
			wantStatus: 422, wantBody: passed, wantRetry: "false",
		},
		"else its words go into our envelope": {
			failure:    failure(llm.ClassClientError, llm.ReasonContextLength, status(400), upstream(llm.UpstreamError{Type: "bad", Code: "context_length_exceeded", Param: "messages", Message: "too long"})),
			wantStatus: 400, wantProblem: problem{Message: "too long", Type: "bad", Code: ptr("context_length_exceeded"), Param: ptr("messages")},
		},
		"a 409 is never told not to retry (CLS-11)": {
			failure:    failure(llm.ClassClientError, llm.ReasonInvalidRequest, status(409), upstream(llm.UpstreamError{Message: "busy"})),
			wantStatus: 409, wantProblem: problem{Message: "busy", Type: "invalid_request_error", Code: ptr("upstream_refused")},
		},
		"an error inside a 200 that blames the request is a 400": {
			failure:    failure(llm.ClassClientError, llm.ReasonContentFilter, status(200), upstream(llm.UpstreamError{Message: "blocked", Code: "content_filter"})),
			wantStatus: 400, wantProblem: problem{Message: "blocked", Type: "invalid_request_error", Code: ptr("content_filter")},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := setup(t, failing(tc.failure)).chat(t, nil)
			if got.status != tc.wantStatus {
				t.Errorf("status %d, want %d", got.status, tc.wantStatus)
			}
			if tc.wantBody != "" && got.body != tc.wantBody {
				t.Errorf("body %s, want it unchanged", got.body)
			}
			if tc.wantBody == "" {
				if diff := cmp.Diff(tc.wantProblem, problemOf(t, got.body)); diff != "" {
					t.Errorf("envelope (-want +got):\n%s", diff)
				}
			}
			if retry := got.header.Get("x-should-retry"); retry != tc.wantRetry {
				t.Errorf("x-should-retry %q, want %q", retry, tc.wantRetry)
			}
			if target := got.header.Get("X-Breakwater-Target"); target != targetA.Key() {
				t.Errorf("target %q, want the one that refused", target)
			}
		})
	}
}

func upstream(e llm.UpstreamError) func(*llm.Failure) {
	return func(f *llm.Failure) { f.Upstream = &e }
}

func ptr[T any](v T) *T { return &v }

// The envelope, type and code of the fixtures are what clients are written
// against; the words are ours.
func TestACircuitOpenErrorHasTheEnvelopeOfTheFixture(t *testing.T) {
	t.Parallel()
	fixture, err := os.ReadFile(filepath.Join("testdata", "gateway_error_503_circuit_open_openai.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := problemOf(t, string(fixture))
	answer := setup(t, failing(failure(llm.ClassCircuitOpen, llm.ReasonCircuitOpen, retryAfter(12*time.Second)))).chat(t, nil)
	got := problemOf(t, answer.body)
	if !strings.Contains(got.Message, targetA.Key()) || !strings.Contains(got.Message, "retry in 12 s") {
		t.Errorf("message %q names neither the circuit nor the wait", got.Message)
	}
	want.Message, got.Message = "", ""
	if diff := cmp.Diff(want, got); diff != "" || answer.status != 503 {
		t.Errorf("status %d, envelope (-want +got):\n%s", answer.status, diff)
	}
}

func TestNoAnswerShowsACauseFromInside(t *testing.T) {
	t.Parallel()
	secret := errors.New("dial tcp 10.1.2.3:443: sk-secret")
	tests := map[string]error{
		"a fault of ours":     secret,
		"a connection failed": failure(llm.ClassConnection, llm.ReasonRefused, func(f *llm.Failure) { f.Err = secret }),
		"every target failed": exhausted(failure(llm.ClassAuth, llm.ReasonInvalidCredentials, func(f *llm.Failure) { f.Err = secret })),
		"a refusal in pieces": failure(llm.ClassClientError, llm.ReasonInvalidRequest, status(400), func(f *llm.Failure) { f.Err = secret }),
	}
	for name, err := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := setup(t, failing(err)).chat(t, nil)
			if strings.Contains(got.body, "10.1.2.3") || strings.Contains(got.body, "sk-secret") {
				t.Errorf("the answer shows what is inside: %s", got.body)
			}
		})
	}
}

func TestAPanicIsAnInternalErrorWithItsDetailsInTheLogOnly(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		handle api.Handler
		logged string
	}{
		"nobody caught it": {panicking, "api_test.panicking"}, // where, and not what: it may be anybody's words
		"the pipeline caught it": {failing(failure(llm.ClassUnknown, llm.ReasonPanic, func(f *llm.Failure) {
			f.Err = errors.New("the call panicked")
		})), "the call panicked"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, tt.handle)
			got := g.chat(t, nil)
			if got.status != http.StatusInternalServerError || problemOf(t, got.body).code() != "internal_error" {
				t.Errorf("status %d, body %s; want an internal_error", got.status, got.body)
			}
			if strings.Contains(got.body, "kaboom") {
				t.Errorf("the answer shows the panic: %s", got.body)
			}
			log := g.log.String()
			if strings.Contains(log, "kaboom") {
				t.Errorf("the log shows what the panic held:\n%s", log)
			}
			if !strings.Contains(log, tt.logged) || !strings.Contains(log, got.header.Get("X-Request-ID")) {
				t.Errorf("the log does not hold both the panic and the request's id:\n%s", log)
			}
		})
	}
}
