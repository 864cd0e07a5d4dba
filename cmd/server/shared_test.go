package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

const circuitA = "alpha/m1/r1"

// processes runs the program several times, with one configuration, one cache
// and one database. The upstream is that of alpha, before a beta that is well.
func processes(t *testing.T, n int, a *apptest.Upstream, cache string) []*running {
	t.Helper()
	return governedProcesses(t, n, a, cache, "")
}

// governedProcesses is processes with further keys of the circuit breaker.
func governedProcesses(t *testing.T, n int, a *apptest.Upstream, cache, keys string) []*running {
	t.Helper()
	b := apptest.NewUpstream(t, apptest.OK())
	text := apptest.TwoTargets(a, b, cache,
		"circuit_breaker: {failure_threshold: 1, cooldown: 2s, cooldown_multiplier: 1, cooldown_jitter: 0"+keys+"}",
		`server: {listen: "127.0.0.1:0", admin_listen: "127.0.0.1:0"}`, "auth: {mode: open}", "log: {format: json}",
		`database: {url: "${DATABASE_URL}", max_conns: 4}`)
	database := postgrestest.URL(t)
	var all []*running
	for range n {
		all = append(all, serveText(t, text, database))
	}
	return all
}

// gateway is the process as a test of the gateway sees one.
func (r *running) gateway() *apptest.Gateway {
	return &apptest.Gateway{URL: r.data, AdminURL: r.admin}
}

// SCO-05 with processes: however many of them wait for a target to be well again,
// one call finds out.
func TestProcessesThatShareACacheProbeOnce(t *testing.T) {
	t.Parallel()
	const each = 10
	release := make(chan struct{})
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(500), apptest.Held(release, apptest.OK())))
	server := redistest.Start(t)
	all := processes(t, 3, a, fmt.Sprintf("cache: {url: %q, timeout: 10s}", server.URL()))

	all[0].gateway().Post(t, apptest.ChatBody) // A has failed
	for _, r := range all {
		r.gateway().AwaitEligible(t, circuitA)
	}
	answers := make(chan apptest.Answer, each*len(all))
	var calls sync.WaitGroup
	defer calls.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range each * len(all) {
		calls.Go(func() {
			answer, err := all[i%len(all)].gateway().TryPost(ctx, apptest.ChatBody)
			if err != nil {
				t.Error(err)
			}
			answers <- answer
		})
	}
	served := map[string]int{}
	for n := range each * len(all) {
		if n == each*len(all)-1 { // all but the probe are answered
			close(release)
		}
		answer := <-answers
		served[fmt.Sprint(answer.Status, " ", answer.Header.Get("X-Breakwater-Target"))]++
	}

	if served["200 "+circuitA] != 1 || served["200 beta/m1/r2"] != each*len(all)-1 {
		t.Errorf("answers by target: %v, want one of A", served)
	}
	if got := a.Calls(); got != 2 {
		t.Errorf("A was called %d times, want 2", got)
	}
	for _, r := range all {
		r.gateway().AwaitMetric(t, `breakwater_circuit_state{model="m1",provider="alpha",region="r1"}`, "0")
	}
}

// X19 with processes: one canary finds out for all of them, and no caller before.
func TestProcessesThatShareACacheSendOneCanary(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	a := apptest.NewUpstream(t, apptest.When("Are you well?", apptest.Held(release, apptest.OK()), apptest.Status(500)))
	server := redistest.Start(t)
	all := governedProcesses(t, 3, a, fmt.Sprintf("cache: {url: %q, timeout: 10s}", server.URL()), `, probe: {mode: canary, prompt: "Are you well?", expect: ok, timeout: 1m}`)
	circuit := func(r *running) string {
		c := r.gateway().Circuit(t, circuitA)
		return c.State + " by " + c.Reason
	}
	everywhere := func(want string) {
		t.Helper()
		for _, r := range all {
			apptest.Eventually(t, func() string {
				if got := circuit(r); got != want {
					return "the circuit is " + got + ", want " + want
				}
				return ""
			})
		}
	}
	wanted := func() {
		t.Helper()
		for _, r := range all {
			if answer := r.gateway().Post(t, apptest.ChatBody); answer.Header.Get("X-Breakwater-Target") != "beta/m1/r2" {
				t.Errorf("a call got %d %s", answer.Status, answer.Body)
			}
		}
	}

	all[0].gateway().Post(t, apptest.ChatBody) // A has failed
	everywhere("open by consecutive")
	apptest.Eventually(t, func() string {
		wanted()
		if a.Calls() < 2 {
			return "no canary was sent"
		}
		return ""
	})
	everywhere("half_open by canary")
	for range 5 {
		wanted()
	}
	if got := a.Calls(); got != 2 {
		t.Errorf("A was asked %d times, want by one call and one canary", got)
	}
	a.SetScript(apptest.OK())
	close(release)
	everywhere("half_open by canary_success")
	if answer := all[2].gateway().Post(t, apptest.ChatBody); answer.Header.Get("X-Breakwater-Target") != circuitA {
		t.Errorf("the probe got %d %s", answer.Status, answer.Body)
	}
	everywhere("closed by probe_success")
	if got := a.Calls(); got != 3 {
		t.Errorf("A was asked %d times, want by a canary and two calls", got)
	}
}

// RED-01 with processes: a cache that ends under traffic costs no call, and is
// told of once by each.
func TestProcessesGoOnWhenTheirCacheEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := apptest.NewUpstream(t, apptest.OK())
	all := processes(t, 2, a, fmt.Sprintf("cache: {url: %q, timeout: 10s}", server.URL()))
	serveSoon := func(calls int) {
		t.Helper()
		var took []time.Duration
		for i := range calls {
			answer := all[i%len(all)].gateway().Post(t, apptest.ChatBody)
			if answer.Status != http.StatusOK || answer.Header.Get("X-Breakwater-Target") != circuitA {
				t.Errorf("a call got %d %s", answer.Status, answer.Body)
			}
			took = append(took, answer.Took)
		}
		slices.Sort(took)
		if median := took[calls/2]; median > 5*time.Second { // the machine is busy with other tests
			t.Errorf("half of the calls took over %v", median)
		}
	}
	degraded := func(value string) {
		t.Helper()
		for _, r := range all {
			r.gateway().AwaitMetric(t, "breakwater_shared_state_degraded", value)
		}
	}

	degraded("0")
	serveSoon(20)
	server.Kill()
	serveSoon(20)
	degraded("1")
	serveSoon(20)
	server.Restart()
	degraded("0")
	serveSoon(20)
	if got := a.Calls(); got != 80 {
		t.Errorf("A was called %d times for 80 calls", got)
	}
	for _, r := range all {
		if l := r.await(t, "cache is away"); l.Level != "WARN" {
			t.Errorf("the end of the cache is logged as %+v", l)
		}
		if l := r.await(t, "cache is"); l.Msg != "cache is back" {
			t.Errorf("behind it stands %+v", l)
		}
	}
}
