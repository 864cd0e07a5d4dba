package cases

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/leaktest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// atOnce is how many cases run at a time unless -parallel says otherwise: they
// wait for clocks, not for processors.
const atOnce = "10"

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	leaktest.Main(postgrestest.Main(m))
}

// The circuits of the cases' two targets.
const (
	circuitA = "alpha/m1/r1"
	circuitB = "beta/m1/r2"
)

// alpha is the provider of A, with further keys, one per line.
func alpha(a *apptest.Upstream, extra ...string) apptest.Provider {
	return apptest.Provider{Name: "alpha", Region: "r1", Upstream: a, Extra: strings.Join(extra, "\n")}
}

// beta is the provider of B, with further keys, one per line.
func beta(b *apptest.Upstream, extra ...string) apptest.Provider {
	return apptest.Provider{Name: "beta", Region: "r2", Upstream: b, Extra: strings.Join(extra, "\n")}
}

// serving is the section of the listeners with further keys, separated by commas.
func serving(keys string) string {
	return "server: {listen: \"127.0.0.1:0\", admin_listen: \"127.0.0.1:0\", " + keys + "}"
}

// gamma is the provider of a third target, with further keys, one per line.
func gamma(c *apptest.Upstream, extra ...string) apptest.Provider {
	return apptest.Provider{Name: "gamma", Region: "r3", Upstream: c, Extra: strings.Join(extra, "\n")}
}

// movingOn is the configuration chat over A and B that falls back on the given
// classes only.
func movingOn(classes string) string {
	return "configurations:\n  chat:\n" +
		"    targets: [{provider: alpha, model: m1}, {provider: beta, model: m1}]\n" +
		"    fallback_on: [" + classes + "]\n"
}

// eager is a circuit breaker that opens at the first failure for one second,
// every time.
const eager = "circuit_breaker: {failure_threshold: 1, window: {size: 10m}, cooldown: 1s, cooldown_multiplier: 1, cooldown_jitter: 0}"

// equal complains when what is not as it should be.
func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// rows compares rows by the columns that each wanted one names.
func rows(t *testing.T, what string, got []apptest.Row, want ...apptest.Row) {
	t.Helper()
	some := make([]apptest.Row, 0, len(got))
	for i, row := range got {
		some = append(some, row.Only(want[min(i, len(want)-1)]))
	}
	equal(t, what, some, want)
}

// failed is the row of an attempt on a provider that counts against it.
func failed(provider, class, reason string) apptest.Row {
	return apptest.Row{"provider": provider, "outcome": "failure", "failure_class": class, "failure_reason": reason}
}

// neutral is the row of an attempt that says nothing about its target.
func neutral(provider, class, reason string) apptest.Row {
	return apptest.Row{"provider": provider, "outcome": "neutral", "failure_class": class, "failure_reason": reason}
}

// succeeded is the row of an attempt that went well.
func succeeded(provider string) apptest.Row {
	return apptest.Row{"provider": provider, "outcome": "success", "failure_class": nil, "failure_reason": nil}
}

// served checks that the client got the whole answer of a healthy target.
func served(t *testing.T, answer apptest.Answer, target string) {
	t.Helper()
	equal(t, "status", answer.Status, 200)
	equal(t, "target", answer.Header.Get("X-Breakwater-Target"), target)
	equal(t, "body", answer.Body, apptest.OKBody)
}

// refused checks that the client got an error of the gateway's own.
func refused(t *testing.T, answer apptest.Answer, status int, kind, code string) {
	t.Helper()
	equal(t, "status", answer.Status, status)
	equal(t, "content type", answer.Header.Get("Content-Type"), "application/json")
	got := answer.Error(t)
	equal(t, "error type and code", got.Type+" "+got.Code, kind+" "+code)
}

// untroubled checks that a circuit is closed and has counted no failure.
func untroubled(t *testing.T, g *apptest.Gateway, key string) {
	t.Helper()
	circuit := g.Circuit(t, key)
	equal(t, "state of "+key, circuit.State, "closed")
	equal(t, "failures of "+key, circuit.Failures, 0)
}
