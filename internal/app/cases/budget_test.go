package cases

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// budgets is what is refused before it costs anything.
var budgets = theme{
	"BUD_01":   onlyWhatFitsGoesOut,
	"BUD_03":   daysAreThoseOfTheTimeZone,
	"BUD_05":   absentIsNoLimitAndZeroIsNothing,
	"BUD_06":   aPaidSiblingOfAFreeTargetIsAskedForMoney,
	"CF_G18":   overBudgetNobodyIsAsked,
	"CF_X2":    aRefusedStreamIsRefusedAtOnce,
	"RED_05":   limitsWithoutTheCacheAreFlagged,
	"DIS_05_B": anInterruptedStreamIsDebited,
	"CST_05_B": anUnknownPriceDoesNotFitABudget,
	"CST_06_B": freeCallsNeedNoBudget,
}

// under is the configuration chat over the providers, under limits.
func under(limits string, providers ...string) string {
	var targets []string
	for _, p := range providers {
		targets = append(targets, fmt.Sprintf("{provider: %s, model: m1}", p))
	}
	return fmt.Sprintf("configurations:\n  chat:\n    targets: [%s]\n    limits: {%s}\n", strings.Join(targets, ", "), limits)
}

const (
	budgetType, budgetCode = "insufficient_quota", "budget_exceeded"
	rateType, rateCode     = "rate_limit_error", "rate_limit_exceeded"
)

// statuses sends so many requests at once, in turn to the gateways, and counts
// the answers by status.
func statuses(t *testing.T, n int, body string, nodes ...*apptest.Gateway) map[int]int {
	t.Helper()
	var mu sync.Mutex
	counts := map[int]int{}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			answer, err := nodes[i%len(nodes)].TryPost(t.Context(), body)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			counts[answer.Status]++
			if answer.Status == http.StatusPaymentRequired {
				if code := answer.Error(t).Code; code != budgetCode {
					t.Errorf("refused with code %s", code)
				}
			}
		})
	}
	all.Wait()
	return counts
}

func onlyWhatFitsGoesOut(t *testing.T) {
	const body = `{"model":"chat","max_tokens":120,"messages":[{"role":"user","content":"say ok"}]}`
	all := completion(oneChoice, `{"prompt_tokens":10,"completion_tokens":120}`)
	for name, nodes := range map[string]struct {
		n      int
		shared bool
	}{"in process": {1, false}, "one gateway on a cache": {1, true}, "two gateways on a cache": {2, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := apptest.NewUpstream(t, all)
			more := []string{under("cost_per_day: 0.0010", "alpha")}
			if nodes.shared {
				more = append(more, onCache(redistest.Start(t)))
			}
			gateways := fleet(t, nodes.n, apptest.Configuration(strings.Join(more, "\n"), alpha(a, "models: {m1: {input: 0, output: 5}}")))
			equal(t, "answers", statuses(t, 10, body, gateways...), map[int]int{200: 1, 402: 9})
			equal(t, "calls of A", a.Calls(), 1)
			gateways[0].AwaitSpent(t, "chat", "cost_per_day", "0.0006")
		})
	}
}

// The lengths of days, 23 and 25 hours too, are budget.TestPeriods; here, that a
// gateway counts and tells by the zone that it is given, and by a new one at once.
func daysAreThoseOfTheTimeZone(t *testing.T) {
	const west, amsterdam, east = "Etc/GMT+12", "Europe/Amsterdam", "Pacific/Kiritimati" // west is a day behind east at any time
	waitOutMidnight(t, west, amsterdam, east)
	a := apptest.NewUpstream(t, apptest.OK())
	text := func(zone string) string {
		return apptest.OneTarget(a, under("requests_per_day: 1, requests_per_month: 100", "alpha"), "budget: {time_zone: "+zone+"}")
	}
	g := apptest.Start(t, text(west))
	ends := func(zone string, day, month int) string {
		at, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		y, m, d := time.Now().In(at).Date()
		if month > 0 {
			d = 1
		}
		return time.Date(y, m+time.Month(month), d+day, 0, 0, 0, 0, at).UTC().Format(time.RFC3339)
	}
	told := func(zone string) {
		t.Helper()
		day, month := ends(zone, 1, 0), ends(zone, 0, 1)
		limits := g.Limits(t, "chat")
		equal(t, "the day of "+zone+" ends", limits["requests_per_day"].ResetsAt, day)
		equal(t, "the month of "+zone+" ends", limits["requests_per_month"].ResetsAt, month)
	}

	served(t, g.Post(t, apptest.ChatBody), circuitA)
	told(west)
	answer := g.Post(t, apptest.ChatBody)
	refused(t, answer, 402, budgetType, budgetCode)
	if message := answer.Error(t).Message; !strings.Contains(message, "it resets at "+ends(west, 1, 0)) {
		t.Errorf("message %q does not say that it resets at %s", message, ends(west, 1, 0))
	}
	g.MustReload(t, text(east)) // where it is tomorrow
	served(t, g.Post(t, apptest.ChatBody), circuitA)
	told(east)
	refused(t, g.Post(t, apptest.ChatBody), 402, budgetType, budgetCode)
	g.MustReload(t, text(amsterdam))
	told(amsterdam)
}

// waitOutMidnight returns when no day of the zones ends within what a case takes.
func waitOutMidnight(t *testing.T, zones ...string) {
	t.Helper()
	const aCase = 2 * time.Minute // on a busy machine
	for _, zone := range zones {
		at, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		y, m, d := time.Now().In(at).Date()
		if left := time.Until(time.Date(y, m, d+1, 0, 0, 0, 0, at)); left < aCase {
			t.Logf("the day of %s ends in %s, which is waited for", zone, left)
			time.Sleep(left)
		}
	}
}

// What a failed attempt has cost is all that stays, although no later target fits.
func TestWhereNoLaterTargetFitsTheEarlierIsPaid(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]bool{"in process": false, "on a cache": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := apptest.NewUpstream(t, completion("", `{"prompt_tokens":10,"completion_tokens":5}`)) // 0.000035 USD
			b, c := apptest.NewUpstream(t, apptest.OK()), apptest.NewUpstream(t, apptest.OK())
			more := []string{under("cost_per_day: 0.03, requests_per_day: 10", "alpha", "beta", "gamma")}
			if shared {
				more = append(more, onCache(redistest.Start(t)))
			}
			dear := "models: {m1: {input: 1, output: 50}}" // 0.2 USD at most
			g := apptest.Start(t, apptest.Configuration(strings.Join(more, "\n"), alpha(a), beta(b, dear), gamma(c, dear)))

			for n := range 2 { // the second would not fit beside what the first had reserved
				answer := g.Post(t, apptest.ChatBody)
				refused(t, answer, 502, "upstream_error", "upstream_failed")
				rows(t, "attempts", g.AttemptsOf(t, answer), apptest.Row{"provider": "alpha", "outcome": "failure", "cost_usd": "0.000035"},
					apptest.Row{"provider": "beta", "outcome": "refused", "failure_class": "budget_denied"},
					apptest.Row{"provider": "gamma", "outcome": "refused", "failure_class": "budget_denied"})
				g.AwaitSpent(t, "chat", "cost_per_day", []string{"0.000035", "0.00007"}[n])
				g.AwaitSpent(t, "chat", "requests_per_day", fmt.Sprint(n+1))
			}
			equal(t, "calls of A, B and C", []int{a.Calls(), b.Calls(), c.Calls()}, []int{2, 0, 0})
		})
	}
}

func absentIsNoLimitAndZeroIsNothing(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.Configuration(`configurations:
  absent: {targets: [{provider: alpha, model: m1}]}
  nothing: {targets: [{provider: alpha, model: m1}], limits: {cost_per_day: 0}}
  cent: {targets: [{provider: alpha, model: m1}], limits: {cost_per_day: 0.01}}
`, alpha(a)))
	ask := func(model string) apptest.Answer {
		return g.Post(t, fmt.Sprintf(`{"model":%q,"max_tokens":900,"messages":[{"role":"user","content":"say ok"}]}`, model))
	}
	a.SetScript(completion(oneChoice, `{"prompt_tokens":10,"completion_tokens":900}`)) // 0.00451 USD

	for range 4 {
		equal(t, "without a limit", ask("absent").Status, 200)
	}
	refused(t, ask("nothing"), 402, budgetType, budgetCode)
	equal(t, "of a cent", ask("cent").Status, 200)
	equal(t, "of a cent", ask("cent").Status, 200)
	answer := ask("cent") // 0.00902 are spent
	refused(t, answer, 402, budgetType, budgetCode)
	equal(t, "to be tried again", answer.Header.Get("X-Should-Retry"), "false")
	for _, part := range []string{"cost_per_day", "0.01 USD", "0.00902 USD are used", "it resets at"} {
		if message := answer.Error(t).Message; !strings.Contains(message, part) {
			t.Errorf("message %q does not say %q", message, part)
		}
	}
	equal(t, "calls of A", a.Calls(), 6)
	rows(t, "the refused run", g.Runs(t, 8)[7:], apptest.Row{"outcome": "denied", "failure_class": "budget_denied", "failure_reason": "budget_exceeded", "http_status": 402, "cost_usd": nil, "attempts": 0})
	rows(t, "its attempt", g.AttemptsOf(t, answer), apptest.Row{"provider": "alpha", "outcome": "refused", "failure_class": "budget_denied", "failure_reason": "budget_exceeded", "upstream_status": nil})
	g.AwaitMetric(t, `breakwater_budget_denied_total{scope="configuration"}`, "2")
	g.AwaitMetric(t, `breakwater_budget_denied_total{scope="key"}`, "0")
	g.AwaitMetric(t, `breakwater_budget_left{configuration="cent",limit="cost_per_day"}`, "0.00098")
	g.AwaitMetric(t, `breakwater_requests_total{configuration="cent",operation="chat",outcome="denied"}`, "1")
	untroubled(t, g, circuitA)
}

func aPaidSiblingOfAFreeTargetIsAskedForMoney(t *testing.T) {
	a, b := apptest.NewUpstream(t, apptest.Status(503)), apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.Configuration(under("cost_per_day: 0", "alpha", "beta"),
		alpha(a, "models: {m1: {input: 0, output: 0}}"), beta(b)))

	refused(t, g.Post(t, apptest.ChatBody), 503, "service_unavailable_error", "upstream_unavailable")

	equal(t, "calls of A and B", []int{a.Calls(), b.Calls()}, []int{1, 0})
	rows(t, "attempts", g.Attempts(t, 2), failed("alpha", "server_error", "upstream_status"),
		apptest.Row{"provider": "beta", "outcome": "refused", "failure_class": "budget_denied", "failure_reason": "budget_exceeded"})
}

func overBudgetNobodyIsAsked(t *testing.T) {
	a, b := apptest.NewUpstream(t, apptest.OK()), apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.Configuration(`configurations:
  chat: {targets: [{provider: alpha, model: m1}, {provider: beta, model: m1}], limits: {requests_per_month: 2, requests_per_day: 10}}
  other: {targets: [{provider: beta, model: m1}], limits: {requests_per_month: 2}}
`, alpha(a), beta(b)))
	served(t, g.Post(t, apptest.ChatBody), circuitA)
	served(t, g.Post(t, apptest.ChatBody), circuitA)
	answer := g.Post(t, apptest.ChatBody)
	refused(t, answer, 402, budgetType, budgetCode)
	equal(t, "attempts", answer.Header.Get("X-Breakwater-Attempts"), "0")
	if message := answer.Error(t).Message; !strings.Contains(message, "requests_per_month") {
		t.Errorf("message %q does not name the limit", message)
	}
	served(t, g.Post(t, strings.Replace(apptest.ChatBody, "chat", "other", 1)), circuitB)
	equal(t, "calls of A and B", []int{a.Calls(), b.Calls()}, []int{2, 1})
	g.AwaitSpent(t, "chat", "requests_per_month", "2")
	g.AwaitSpent(t, "chat", "requests_per_day", "2")
	g.AwaitSpent(t, "other", "requests_per_month", "1")
}

func aRefusedStreamIsRefusedAtOnce(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OKStream())
	g := apptest.Start(t, apptest.OneTarget(a, under("tokens_per_day: 0", "alpha")))
	refused(t, g.Post(t, apptest.StreamBody), 402, budgetType, budgetCode)
	equal(t, "calls of A", a.Calls(), 0)
	rows(t, "runs", g.Runs(t, 1), apptest.Row{"outcome": "denied", "streamed": true, "input_tokens": nil, "ttft_ms": nil})
}

func anInterruptedStreamIsDebited(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Stream(apptest.RoleChunk,
		apptest.Chunk("aaa"), apptest.Chunk("bbb"), apptest.Chunk("ccc"), time.Hour))
	g := apptest.Start(t, apptest.OneTarget(a, under("cost_per_day: 1, tokens_per_day: 100000", "alpha")))

	client := g.Open(t, apptest.StreamBody)
	client.Until("ccc")
	if held := g.Limits(t, "chat")["cost_per_day"].Reserved.String(); held == "0" {
		t.Error("nothing is reserved while the stream runs")
	}
	client.Leave()

	g.AwaitSpent(t, "chat", "cost_per_day", "0.000017") // 2 and 3 tokens, estimated
	g.AwaitSpent(t, "chat", "tokens_per_day", "5")
	rows(t, "runs", g.Runs(t, 1), apptest.Row{"usage_estimated": true, "cost_usd": "0.000017"})
}

func anUnknownPriceDoesNotFitABudget(t *testing.T) {
	a, b := apptest.NewUpstream(t, apptest.OK()), apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.Configuration(`configurations:
  chat: {targets: [{provider: alpha, model: m1}], limits: {cost_per_day: 10}}
  none: {targets: [{provider: alpha, model: m1}]}
  both: {targets: [{provider: alpha, model: m1}, {provider: beta, model: m1}], limits: {cost_per_day: 10}}
`, alpha(a, "models: {m1: {}}"), beta(b)))
	served(t, g.Post(t, strings.Replace(apptest.ChatBody, "chat", "none", 1)), circuitA)
	answer := g.Post(t, apptest.ChatBody)
	refused(t, answer, 403, "permission_error", "unpriced_model")
	rows(t, "attempts", g.AttemptsOf(t, answer), apptest.Row{"outcome": "refused", "failure_class": "budget_denied", "failure_reason": "unpriced_model"})
	served(t, g.Post(t, strings.Replace(apptest.ChatBody, "chat", "both", 1)), circuitB)
	equal(t, "calls of A", a.Calls(), 1)
	rows(t, "runs", g.Runs(t, 3)[:2], apptest.Row{"outcome": "success", "unpriced": true, "cost_usd": nil},
		apptest.Row{"outcome": "denied", "failure_reason": "unpriced_model", "http_status": 403})
}

func freeCallsNeedNoBudget(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.Configuration(under("cost_per_day: 0", "alpha"), alpha(a, "models: {m1: {input: 0, output: 0}}")))
	served(t, g.Post(t, apptest.ChatBody), circuitA)
	rows(t, "runs", g.Runs(t, 1), apptest.Row{"cost_usd": "0", "unpriced": false})
	equal(t, "what A was sent", strings.Contains(a.Requests()[0].Body, "max_tokens"), false)
}

func limitsWithoutTheCacheAreFlagged(t *testing.T) {
	server := redistest.Start(t)
	a := apptest.NewUpstream(t, apptest.OK())
	nodes := fleet(t, 2, apptest.OneTarget(a, under("requests_per_day: 8", "alpha"), onCache(server)))
	for _, g := range nodes {
		served(t, g.Post(t, apptest.ChatBody), circuitA)
	}
	nodes[0].AwaitSpent(t, "chat", "requests_per_day", "2")
	server.Kill()

	refusals := 0
	for range 20 {
		for _, g := range nodes {
			switch answer := g.Post(t, apptest.ChatBody); answer.Status {
			case 200:
			case 402:
				refusals++
			default:
				t.Errorf("status %d %s", answer.Status, answer.Body)
			}
		}
	}
	if calls := a.Calls(); calls > 8 || refusals != 40-(calls-2) {
		t.Errorf("%d calls of A and %d refusals, want at most 8 calls and the rest refused", calls, refusals)
	}
	for _, g := range nodes {
		g.AwaitMetric(t, "breakwater_shared_state_degraded", "1")
		if body := apptest.Get(t, g.AdminURL+"/readyz").Body; !strings.Contains(body, `"cache"`) {
			t.Errorf("readyz says %s, which does not name the cache", body)
		}
		if body := apptest.Get(t, g.AdminURL+"/api/v1/budgets").Body; !strings.Contains(body, `"degraded":true`) {
			t.Errorf("budgets say %s, which is not degraded", body)
		}
		if n := strings.Count(g.Logs.String(), "limits are kept by this gateway alone"); n != 1 {
			t.Errorf("%d lines say that limits are kept apart, want 1", n)
		}
	}
}
