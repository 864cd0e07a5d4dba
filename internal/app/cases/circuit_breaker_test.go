package cases

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

var circuitBreaker = theme{
	"BRK_01": hangingProbeGetsAVerdict,
	"BRK_03": cancelledProbeIsNoVerdict,
	"BRK_05": oneProbeAtATime,
	"BRK_06": unreachableSuccessThresholdIsRefused,
	"BRK_07": lateResultsOfAnEarlierGenerationAreNothing,
	"BRK_09": circuitOpensAtItsThresholdAndNotBefore,
	"BRK_11": failedProbeReopensForAWholeCooldown,
	"BRK_13": everyStateIsSeen,
}

func hangingProbeGetsAVerdict(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(500), apptest.Hang(), apptest.OK()))
	g := apptest.Start(t, apptest.Configuration(eager, alpha(a, "timeouts: {total: 6s}")))

	g.Post(t, apptest.ChatBody) // opens
	g.AwaitEligible(t, circuitA)
	probe := g.Post(t, apptest.ChatBody)
	refused(t, probe, 504, "upstream_error", "upstream_timeout")
	rows(t, "probe", g.AttemptsOf(t, probe), apptest.Row{"outcome": "failure", "failure_reason": "total_timeout", "probe": "probe"})

	g.AwaitEligible(t, circuitA)
	served(t, g.Post(t, apptest.ChatBody), circuitA)
	equal(t, "state of A", g.Circuit(t, circuitA).State, "closed")
}

func cancelledProbeIsNoVerdict(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(500), apptest.Hang(), apptest.OK()))
	g := apptest.Start(t, apptest.OneTarget(a, eager))

	g.Post(t, apptest.ChatBody) // opens
	g.AwaitEligible(t, circuitA)
	leaveOnce(t, g, a, 1)
	g.Runs(t, 2)
	equal(t, "state after the probe was cancelled", g.Circuit(t, circuitA).State, "half_open")

	answer := g.Post(t, apptest.ChatBody)
	served(t, answer, circuitA)
	rows(t, "second probe", g.AttemptsOf(t, answer), apptest.Row{"outcome": "success", "probe": "probe"})
	equal(t, "state after the second", g.Circuit(t, circuitA).State, "closed")
	transitions(t, g, "closed open", "open half_open", "half_open closed")
}

// transitions checks every transition that was recorded, in order.
func transitions(t *testing.T, g *apptest.Gateway, want ...string) []apptest.Row {
	t.Helper()
	events := g.CircuitEvents(t, len(want))
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprint(e["from_state"], " ", e["to_state"]))
	}
	equal(t, "transitions", got, want)
	return events
}

func oneProbeAtATime(t *testing.T) {
	const calls = 20
	t.Run("with_another_target", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(500), apptest.Held(release, apptest.OK())))
		b := apptest.NewUpstream(t, apptest.OK())
		g := apptest.Start(t, apptest.TwoTargets(a, b, eager))

		g.Post(t, apptest.ChatBody) // opens
		g.AwaitEligible(t, circuitA)
		equal(t, "answers by target", targetsOf(crowd(t, g, calls, release)), map[string]int{circuitA: 1, circuitB: calls - 1})
		equal(t, "calls of A", a.Calls(), 2)
		equal(t, "state of A", g.Circuit(t, circuitA).State, "closed")
	})
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(500), apptest.Held(release, apptest.OK())))
		g := apptest.Start(t, apptest.OneTarget(a, eager))

		g.Post(t, apptest.ChatBody) // opens
		g.AwaitEligible(t, circuitA)
		answers := crowd(t, g, calls, release)
		equal(t, "answers by target", targetsOf(answers), map[string]int{circuitA: 1, "": calls - 1})
		for _, answer := range answers[:calls-1] {
			refused(t, answer, 503, "service_unavailable_error", "circuit_open")
			if answer.Header.Get("Retry-After") == "" {
				t.Error("a refusal does not say when to come back")
			}
		}
		equal(t, "calls of A", a.Calls(), 2)
	})
}

// crowd sends n requests at once of which one is held, and releases it when
// all others are answered. The held one's answer is the last.
func crowd(t *testing.T, g *apptest.Gateway, n int, release chan struct{}) []apptest.Answer {
	t.Helper()
	return crowdOver(t, []*apptest.Gateway{g}, n, release)
}

// crowdOver is crowd with n requests to each of several gateways, of which one
// is held.
func crowdOver(t *testing.T, gateways []*apptest.Gateway, n int, release chan struct{}) []apptest.Answer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan apptest.Answer, n*len(gateways))
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for i := range n * len(gateways) {
		all.Go(func() {
			answer, err := gateways[i%len(gateways)].TryPost(ctx, apptest.ChatBody)
			if err != nil {
				t.Error(err)
			}
			answers <- answer
		})
	}
	var got []apptest.Answer
	for range n*len(gateways) - 1 {
		got = append(got, <-answers)
	}
	close(release)
	return append(got, <-answers)
}

func targetsOf(answers []apptest.Answer) map[string]int {
	count := map[string]int{}
	for _, answer := range answers {
		count[answer.Header.Get("X-Breakwater-Target")]++
	}
	return count
}

func unreachableSuccessThresholdIsRefused(t *testing.T) {
	up := &apptest.Upstream{URL: "http://127.0.0.1:1/v1"}
	told := apptest.Refused(t, apptest.OneTarget(up, "circuit_breaker: {half_open_calls: 1, success_threshold: 3}"))

	if !strings.Contains(told, "circuit_breaker.success_threshold") {
		t.Errorf("the key is not named: %s", told)
	}
}

func lateResultsOfAnEarlierGenerationAreNothing(t *testing.T) {
	const slow = 10
	release := make(chan struct{})
	a := apptest.NewUpstream(t, apptest.When("slow", apptest.Held(release, apptest.Status(500)), apptest.Status(500)))
	g := apptest.Start(t, apptest.OneTarget(a))

	var late sync.WaitGroup
	for range slow {
		late.Go(func() {
			answer, err := g.TryPost(t.Context(), `{"model":"chat","messages":[{"role":"user","content":"slow"}]}`)
			if err != nil {
				t.Error(err)
				return
			}
			equal(t, "status of a late call", answer.Status, 502)
		})
	}
	apptest.Eventually(t, func() string {
		if a.Calls() < slow {
			return "not all slow calls have begun"
		}
		return ""
	})
	for range 10 {
		g.Post(t, apptest.ChatBody)
	}
	equal(t, "state after ten failures", g.Circuit(t, circuitA).State, "open")
	g.AwaitEligible(t, circuitA)
	a.SetScript(apptest.OK())
	served(t, g.Post(t, apptest.ChatBody), circuitA)

	close(release)
	late.Wait()
	circuit := g.Circuit(t, circuitA)
	equal(t, "state after the late failures", circuit.State, "closed")
	equal(t, "failures in the window and in a row", []int{circuit.Failures, circuit.ConsecutiveFailures}, []int{0, 0})
	transitions(t, g, "closed open", "open half_open", "half_open closed")
	g.AwaitMetric(t, `breakwater_circuit_stale_results_total{model="m1",provider="alpha",region="r1"}`, "10")
}

func circuitOpensAtItsThresholdAndNotBefore(t *testing.T) {
	t.Run("rate", func(t *testing.T) {
		t.Parallel()
		a := apptest.NewUpstream(t, apptest.Status(500))
		g := apptest.Start(t, apptest.OneTarget(a))

		for range 9 {
			g.Post(t, apptest.ChatBody)
		}
		circuit := g.Circuit(t, circuitA)
		equal(t, "state after nine failures", circuit.State, "closed")
		equal(t, "rate of so few", circuit.FailureRate, nil)
		a.SetScript(apptest.OK())
		served(t, g.Post(t, apptest.ChatBody), circuitA)

		circuit = g.Circuit(t, circuitA)
		equal(t, "state after the tenth call, a success", circuit.State, "open")
		equal(t, "why", []string{circuit.Reason, circuit.Class}, []string{"failure_rate", "server_error"})
		equal(t, "rate", circuit.FailureRate, new(0.9))
		opening := transitions(t, g, "closed open")[0]
		equal(t, "event", opening.Only(apptest.Row{"reason": nil}), apptest.Row{"reason": "failure_rate"})
		equal(t, "counts", fmt.Sprint(opening["counts"]), fmt.Sprint(map[string]any{"calls": 10, "failures": 9, "slow": 0, "consecutive_failures": 0}))
		g.AwaitMetric(t, `breakwater_circuit_failure_rate{model="m1",provider="alpha",region="r1"}`, "0.9")
	})
	t.Run("streak", func(t *testing.T) {
		t.Parallel()
		a := apptest.NewUpstream(t, apptest.Status(500))
		g := apptest.Start(t, apptest.OneTarget(a, "circuit_breaker: {failure_threshold: 10, failure_rate_threshold: 0}"))
		fail := func(times int) {
			for range times {
				g.Post(t, apptest.ChatBody)
			}
		}

		fail(9)
		equal(t, "state after nine failures", g.Circuit(t, circuitA).State, "closed")
		a.SetScript(apptest.OK())
		served(t, g.Post(t, apptest.ChatBody), circuitA)
		a.SetScript(apptest.Status(500))
		fail(9)
		equal(t, "state after nine more", g.Circuit(t, circuitA).State, "closed")
		fail(1)
		equal(t, "state after the tenth", g.Circuit(t, circuitA).State, "open")
	})
}

func failedProbeReopensForAWholeCooldown(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(500), apptest.OK(), apptest.Status(500), apptest.OK()))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b,
		"circuit_breaker: {failure_threshold: 1, cooldown: 1s, cooldown_multiplier: 30, cooldown_jitter: 0, half_open_calls: 3, success_threshold: 3}"))

	g.Post(t, apptest.ChatBody) // opens
	g.AwaitEligible(t, circuitA)
	served(t, g.Post(t, apptest.ChatBody), circuitA)
	equal(t, "state after one good probe", g.Circuit(t, circuitA).State, "half_open")
	served(t, g.Post(t, apptest.ChatBody), circuitB)
	equal(t, "state after a bad one", g.Circuit(t, circuitA).State, "open")

	served(t, g.Post(t, apptest.ChatBody), circuitB)
	equal(t, "calls of A", a.Calls(), 3)
	events := transitions(t, g, "closed open", "open half_open", "half_open open")
	if reopened := events[2]["open_for_ms"].(int); reopened < 30_000 {
		t.Errorf("reopened for %d ms, want a whole cooldown, grown", reopened)
	}
}

func everyStateIsSeen(t *testing.T) {
	const stateOfA = `breakwater_circuit_state{model="m1",provider="alpha",region="r1"}`
	release := make(chan struct{})
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(500), apptest.Held(release, apptest.OK())))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b, eager))
	states := func(step, ofA string) {
		t.Helper()
		equal(t, "states when "+step, g.Metrics(t, "breakwater_circuit_state"), map[string]string{
			stateOfA: ofA,
			`breakwater_circuit_state{model="m2",provider="alpha",region="r1"}`: "0",
			`breakwater_circuit_state{model="m1",provider="beta",region="r2"}`:  "0",
			`breakwater_circuit_state{model="m2",provider="beta",region="r2"}`:  "0",
		})
	}

	states("fresh", "0")
	g.Post(t, apptest.ChatBody)
	states("open", "1")
	g.AwaitEligible(t, circuitA)
	var probe sync.WaitGroup
	probe.Go(func() {
		if _, err := g.TryPost(t.Context(), apptest.ChatBody); err != nil {
			t.Error(err)
		}
	})
	apptest.Eventually(t, func() string {
		if a.Calls() < 2 {
			return "the probe has not reached A"
		}
		return ""
	})
	states("half-open", "2")
	close(release)
	probe.Wait()
	states("closed again", "0")

	transitions(t, g, "closed open", "open half_open", "half_open closed")
	apptest.Eventually(t, func() string { // which may come behind the rows
		return cmp.Diff(3, strings.Count(g.Logs.String(), `"msg":"circuit changed"`))
	})
	for _, step := range []string{
		`from_state="closed",model="m1",provider="alpha",reason="consecutive",region="r1",to_state="open"`,
		`from_state="open",model="m1",provider="alpha",reason="half_open",region="r1",to_state="half_open"`,
		`from_state="half_open",model="m1",provider="alpha",reason="probe_success",region="r1",to_state="closed"`,
	} {
		g.AwaitMetric(t, "breakwater_circuit_transitions_total{"+step+"}", "1")
	}
}
