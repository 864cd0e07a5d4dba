package cases

import (
	"fmt"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

var errorClass = theme{
	"CLS_01":      emptyAccountIsNotARateLimit,
	"CLS_03":      overloadIsTheProvidersFault,
	"CLS_05":      filteredContentIsTheRequestsFault,
	"CLS_07":      deadCredentialMovesOnWhereNamed,
	"CLS_07_twin": deadCredentialIsShownByDefault,
	"CLS_09":      retiredModelMovesOnWhereNamed,
	"CLS_09_twin": retiredModelIsShownByDefault,
	"CLS_11":      eachStatusHasItsClass,
	"CLS_12":      emptyAccountMovesOnWhateverTheStatus,
	"CLS_13":      tooLargeForTheModelMovesOnWhereNamed,
	"CLS_13_twin": tooLargeForTheModelIsRelayedByDefault,
}

const threeRetries = "retry: {max: 3, base: 10ms}"

func emptyAccountIsNotARateLimit(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.JSON(429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.Configuration("", alpha(a, threeRetries), beta(b)))

	answer := g.Post(t, apptest.ChatBody)

	served(t, answer, circuitB)
	between(t, "the answer", answer.Took, 0, aWhile)
	equal(t, "calls of A", a.Calls(), 1)
	rows(t, "attempts", g.Attempts(t, 2), failed("alpha", "quota", "quota_exhausted"), succeeded("beta"))
	alarmed(t, g, "quota")
}

func overloadIsTheProvidersFault(t *testing.T) {
	overloaded := apptest.JSON(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
	t.Run("with_another_target", func(t *testing.T) {
		t.Parallel()
		a := apptest.NewUpstream(t, overloaded)
		b := apptest.NewUpstream(t, apptest.OK())
		g := apptest.Start(t, apptest.TwoTargets(a, b))
		served(t, g.Post(t, apptest.ChatBody), circuitB)
	})
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		a := apptest.NewUpstream(t, overloaded)
		g := apptest.Start(t, apptest.OneTarget(a))

		refused(t, g.Post(t, apptest.ChatBody), 503, "service_unavailable_error", "upstream_unavailable")
		rows(t, "attempts", g.Attempts(t, 1), apptest.Row{"outcome": "failure", "failure_reason": "overloaded", "upstream_status": 529})
		equal(t, "failures of A", g.Circuit(t, circuitA).Failures, 1)
	})
}

func filteredContentIsTheRequestsFault(t *testing.T) {
	const body = `{"error":{"message":"The prompt was filtered","type":null,"param":"prompt","code":"content_filter","status":400}}`
	a := apptest.NewUpstream(t, apptest.When("forbidden", apptest.JSON(400, body), apptest.OK()))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	for range 12 {
		answer := g.Post(t, `{"model":"chat","messages":[{"role":"user","content":"forbidden"}]}`)
		equal(t, "status", answer.Status, 400)
		equal(t, "body", answer.Body, body)
	}
	equal(t, "calls of A", a.Calls(), 12)
	equal(t, "calls of B", b.Calls(), 0)
	served(t, g.Post(t, apptest.ChatBody), circuitA)
	untroubled(t, g, circuitA)
	rows(t, "first attempt", g.Attempts(t, 13)[:1], neutral("alpha", "client_error", "content_filter"))
}

var deadCredential = apptest.JSON(401, `{"error":{"message":"Incorrect API key","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`)

func deadCredentialMovesOnWhereNamed(t *testing.T) {
	a := apptest.NewUpstream(t, deadCredential)
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.Configuration(movingOn("auth"), alpha(a, threeRetries), beta(b)))

	for range 5 {
		served(t, g.Post(t, apptest.ChatBody), circuitB)
	}

	equal(t, "calls of A", a.Calls(), 5)
	untroubled(t, g, circuitA)
	rows(t, "first run's attempts", g.Attempts(t, 10)[:2], neutral("alpha", "auth", "invalid_credentials"), succeeded("beta"))
	alarmed(t, g, "auth")
}

// alarmed checks that operators are told what is wrong with A's set-up, and of
// nothing else.
func alarmed(t *testing.T, g *apptest.Gateway, kind string) {
	t.Helper()
	want := map[string]string{}
	for _, provider := range []string{"alpha", "beta"} {
		for _, k := range []string{"auth", "configuration", "quota"} {
			want[fmt.Sprintf("breakwater_alarms{kind=%q,provider=%q}", k, provider)] = "0"
		}
	}
	want[fmt.Sprintf("breakwater_alarms{kind=%q,provider=\"alpha\"}", kind)] = "1"
	equal(t, "alarms", g.Metrics(t, "breakwater_alarms"), want)
}

func deadCredentialIsShownByDefault(t *testing.T) {
	a := apptest.NewUpstream(t, deadCredential)
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.Configuration("", alpha(a, threeRetries), beta(b)))

	answer := g.Post(t, apptest.ChatBody)

	refused(t, answer, 502, "upstream_error", "upstream_auth")
	equal(t, "Retry-After", answer.Header.Values("Retry-After"), nil)
	equal(t, "calls of A", a.Calls(), 1)
	equal(t, "calls of B", b.Calls(), 0)
	untroubled(t, g, circuitA)
}

var retiredModel = apptest.JSON(404, `{"error":{"message":"The model does not exist","type":"invalid_request_error","param":null,"code":"model_not_found"}}`)

func retiredModelMovesOnWhereNamed(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.When(`"m1"`, retiredModel, apptest.OK()))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.Configuration(movingOn("configuration"), alpha(a, threeRetries), beta(b)))

	for range 12 {
		served(t, g.Post(t, apptest.ChatBody), circuitB)
	}
	equal(t, "calls of A", a.Calls(), 12)
	alarmed(t, g, "configuration")
	served(t, g.Post(t, `{"model":"alpha/m2","messages":[]}`), "alpha/m2/r1")

	untroubled(t, g, circuitA)
	rows(t, "first run's attempts", g.Attempts(t, 25)[:2], neutral("alpha", "configuration", "model_not_found"), succeeded("beta"))
}

func retiredModelIsShownByDefault(t *testing.T) {
	a := apptest.NewUpstream(t, retiredModel)
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.Configuration("", alpha(a, threeRetries), beta(b)))

	refused(t, g.Post(t, apptest.ChatBody), 502, "upstream_error", "upstream_configuration")

	equal(t, "calls of A", a.Calls(), 1)
	equal(t, "calls of B", b.Calls(), 0)
	untroubled(t, g, circuitA)
}

func eachStatusHasItsClass(t *testing.T) {
	moved := func(outcome, class, reason string) wantedStatus { return wantedStatus{200, outcome, class, reason} }
	relayed := func(status int) wantedStatus {
		return wantedStatus{status, "neutral", "client_error", "invalid_request"}
	}
	fault := moved("failure", "server_error", "upstream_status")
	table := map[int]wantedStatus{
		408: moved("failure", "connection", "upstream_status"),
		425: moved("neutral", "connection", "upstream_status"),
		500: fault, 502: fault, 503: fault, 504: fault,
		520: fault, 521: fault, 522: fault, 523: fault, 524: fault,
		529: moved("failure", "server_error", "overloaded"),

		400: relayed(400), 409: relayed(409), 413: relayed(413), 422: relayed(422), 423: relayed(423),

		403: {502, "neutral", "auth", "forbidden"},
		499: {502, "neutral", "unknown", "upstream_status"},
	}
	a := apptest.NewUpstream(t, apptest.OK())
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b, "circuit_breaker: {failure_threshold: 100, failure_rate_threshold: 0}"))
	answers := map[int]apptest.Answer{}
	for status := range table {
		a.SetScript(apptest.Status(status))
		answers[status] = g.Post(t, apptest.ChatBody)
	}
	for status, want := range table {
		want.check(t, g, status, answers[status])
	}
}

// wantedStatus is what becomes of an upstream's status: the client's, and A's
// row.
type wantedStatus struct {
	status                 int
	outcome, class, reason string
}

func (w wantedStatus) check(t *testing.T, g *apptest.Gateway, status int, answer apptest.Answer) {
	t.Helper()
	what := fmt.Sprintf("A's %d ", status)
	equal(t, what+"for the client", answer.Status, w.status)
	want := []apptest.Row{{"provider": "alpha", "upstream_status": status, "outcome": w.outcome, "failure_class": w.class, "failure_reason": w.reason}}
	if w.status == 200 {
		want = append(want, succeeded("beta"))
	}
	rows(t, what+"in the rows", g.AttemptsOf(t, answer), want...)
}

func emptyAccountMovesOnWhateverTheStatus(t *testing.T) {
	for name, script := range map[string]apptest.Script{
		"400": apptest.JSON(400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}`),
		"402": apptest.Status(402),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := apptest.NewUpstream(t, script)
			b := apptest.NewUpstream(t, apptest.OK())
			g := apptest.Start(t, apptest.Configuration("", alpha(a, threeRetries), beta(b)))

			served(t, g.Post(t, apptest.ChatBody), circuitB)

			equal(t, "calls of A", a.Calls(), 1)
			rows(t, "attempts", g.Attempts(t, 2), failed("alpha", "quota", "quota_exhausted"), succeeded("beta"))
		})
	}
}

const tooLarge = `{"error":{"message":"Request too large for model m1","type":"invalid_request_error","param":null,"code":null}}`

func tooLargeForTheModelMovesOnWhereNamed(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.JSON(413, tooLarge))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.Configuration(movingOn("context_length"), alpha(a, threeRetries), beta(b)))

	served(t, g.Post(t, apptest.ChatBody), circuitB)

	equal(t, "calls of A", a.Calls(), 1)
	untroubled(t, g, circuitA)
	rows(t, "attempts", g.Attempts(t, 2), neutral("alpha", "client_error", "context_length"), succeeded("beta"))
}

func tooLargeForTheModelIsRelayedByDefault(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.JSON(413, tooLarge))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.Configuration("", alpha(a, threeRetries), beta(b)))

	answer := g.Post(t, apptest.ChatBody)

	equal(t, "status", answer.Status, 413)
	equal(t, "body", answer.Body, tooLarge)
	equal(t, "calls of A", a.Calls(), 1)
	equal(t, "calls of B", b.Calls(), 0)
	untroubled(t, g, circuitA)
}
