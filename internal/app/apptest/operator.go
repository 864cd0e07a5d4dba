package apptest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/operators"
)

// Circuit is one circuit as the operator API shows it.
type Circuit struct {
	Key                 string   `json:"key"`
	State               string   `json:"state"`
	Reason              string   `json:"reason"`
	Class               string   `json:"class"`
	Eligible            bool     `json:"eligible"`
	RetryAfterMS        int      `json:"retry_after_ms"`
	Calls               int      `json:"calls"`
	Failures            int      `json:"failures"`
	Slow                int      `json:"slow"`
	FailureRate         *float64 `json:"failure_rate"`
	SlowCallRate        *float64 `json:"slow_call_rate"`
	ConsecutiveFailures int      `json:"consecutive_failures"`
	Rejected            int      `json:"rejected"`
	Policy              string   `json:"policy"`
	Note                string   `json:"note"`
	Actor               string   `json:"actor"`
	Until               string   `json:"until"`
}

// Circuit returns one circuit from the operator API, which knows all that can
// be called.
func (g *Gateway) Circuit(t testing.TB, key string) Circuit {
	t.Helper()
	var list struct{ Circuits []Circuit }
	if err := json.Unmarshal([]byte(Get(t, g.AdminURL+"/api/v1/circuits").Body), &list); err != nil {
		t.Fatal(err)
	}
	for _, circuit := range list.Circuits {
		if circuit.Key == key {
			return circuit
		}
	}
	t.Fatalf("the operator API knows no circuit %q", key)
	return Circuit{}
}

// AwaitEligible waits until an open circuit would admit the next call as a
// probe.
func (g *Gateway) AwaitEligible(t testing.TB, key string) {
	t.Helper()
	Eventually(t, func() string {
		if circuit := g.Circuit(t, key); !circuit.Eligible {
			return "circuit " + key + " is " + circuit.State + " and admits no probe"
		}
		return ""
	})
}

// Metrics returns every series whose name and labels begin with prefix, as
// Prometheus prints them, with their values.
func (g *Gateway) Metrics(t testing.TB, prefix string) map[string]string {
	t.Helper()
	series := map[string]string{}
	page, err := Do(t.Context(), http.MethodGet, g.AdminURL+"/metrics", "", "Authorization", "Bearer "+g.MetricsToken)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(page.Body) {
		line = strings.TrimSpace(line)
		if at := strings.LastIndexByte(line, ' '); at > 0 && strings.HasPrefix(line, prefix) {
			series[line[:at]] = line[at+1:]
		}
	}
	return series
}

// AwaitMetric waits until a series has a value.
func (g *Gateway) AwaitMetric(t testing.TB, series, value string) {
	t.Helper()
	Eventually(t, func() string {
		if got := g.Metrics(t, series)[series]; got != value {
			return series + " is " + got + ", want " + value
		}
		return ""
	})
}

// Token mints an operator token.
func (g *Gateway) Token(t testing.TB, name string, role operators.Role) string {
	t.Helper()
	_, text, err := operators.NewTokens(operators.NewRepository(g.DB)).Create(t.Context(), name, role, 0)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Steer does something to a circuit over the operator API, with header pairs.
func (g *Gateway) Steer(t testing.TB, key, action, body string, headers ...string) Answer {
	t.Helper()
	answer, err := Do(t.Context(), http.MethodPost, g.AdminURL+"/api/v1/circuits/"+url.PathEscape(key)+"/"+action, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
