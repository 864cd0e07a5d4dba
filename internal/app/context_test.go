package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/contextasm/contextasmtest"
	"github.com/breakwater-llm/breakwater/internal/contextasm/contextpb"
)

const contextCircuit = "context/chat/default"

// helped is a gateway whose chat has one target and a context assembler.
func helped(address, timeout, more string) func(a *apptest.Upstream) string {
	return func(a *apptest.Upstream) string {
		return apptest.OneTarget(a, fmt.Sprintf(`configurations:
  chat:
    targets: [{provider: alpha, model: m1}]
    context: {address: %q, timeout: %s, max_tokens: 100}
  bare:
    targets: [{provider: alpha, model: m1}]
`, address, timeout), more)
	}
}

// withFact is what a model is sent of a body when the assembler knows a fact.
func withFact(body string) string {
	return strings.Replace(strings.Replace(body, `"messages":[`, `"messages":[{"role":"system","content":"tides follow the moon"},`, 1), `"chat"`, `"m1"`, 1)
}

// plainly is what a model is sent of a body without context.
func plainly(body string) string { return strings.Replace(body, `"chat"`, `"m1"`, 1) }

// degraded compares how an answer is marked, in its header and its body.
func degraded(t *testing.T, answer apptest.Answer, want bool) {
	t.Helper()
	var body struct {
		Degraded bool `json:"ai_degraded"`
	}
	if err := json.Unmarshal([]byte(answer.Body), &body); err != nil || answer.Status != 200 {
		t.Fatalf("got %d %s", answer.Status, answer.Body)
	}
	if header := answer.Header.Get("X-Breakwater-Degraded"); body.Degraded != want || (header == "context") != want {
		t.Errorf("ai_degraded %v, header %q; want %v in both", body.Degraded, header, want)
	}
}

func TestACallGetsTheContextOfItsConfiguration(t *testing.T) {
	t.Parallel()
	assembler := contextasmtest.Start(t)
	assembler.Answers(contextasmtest.Knows("tides follow the moon"))
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, helped(assembler.Address, "20s", "")(a))

	answer := g.Post(t, apptest.ChatBody, "X-Correlation-ID", "order-17")
	degraded(t, answer, false)
	bare := strings.Replace(apptest.ChatBody, `"chat"`, `"bare"`, 1)
	if without := g.Post(t, bare); without.Body != apptest.OKBody || answer.Body != apptest.OKBody {
		t.Errorf("answers %s and %s, want those of the model", without.Body, answer.Body)
	}

	for i, want := range []string{withFact(apptest.ChatBody), plainly(apptest.ChatBody)} {
		if got := a.Requests()[i].Body; got != want {
			t.Errorf("call %d: the model got\n%s, want\n%s", i+1, got, want)
		}
	}
	want := []*contextpb.AssembleRequest{{Configuration: "chat", CorrelationId: "order-17", Query: "say ok", MaxTokens: 100}}
	if diff := cmp.Diff(want, assembler.Asked(), protocmp.Transform()); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	for _, run := range g.Runs(t, 2) {
		if run["degraded"] != nil {
			t.Errorf("run %v is degraded", run)
		}
	}
	if listed := apptest.Get(t, g.AdminURL+"/api/v1/pipeline").Body; !strings.Contains(listed, `{"name":"context","priority":80}`) {
		t.Errorf("the pipeline is %s", listed)
	}
}

// Whatever becomes of the assembler, callers are answered; when it fails for long
// it is left alone, and when it is back it helps again.
func TestCallsGoOnWithoutTheirContext(t *testing.T) {
	t.Parallel()
	assembler := contextasmtest.Start(t)
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, helped(assembler.Address, "5s",
		"circuit_breaker: {failure_threshold: 2, failure_rate_threshold: 0, cooldown: 100ms, max_cooldown: 100ms, cooldown_jitter: 0}")(a))
	if c := g.Circuit(t, contextCircuit); c.State != "closed" {
		t.Fatalf("before the first call the circuit is %+v, want it closed", c)
	}

	assembler.Answers(contextasmtest.Fails(status.Error(codes.Internal, "broken")))
	degraded(t, g.Post(t, apptest.ChatBody), true)
	assembler.Stop()
	degraded(t, g.Post(t, apptest.ChatBody), true)
	if c := g.Circuit(t, contextCircuit); c.State != "open" || c.Class != "unavailable" {
		t.Errorf("the circuit is %+v, want it open and its class unavailable", c)
	}
	if c := g.Circuit(t, "alpha/m1/r1"); c.State != "closed" || c.Failures != 0 {
		t.Errorf("the target's circuit is %+v, want it untouched", c)
	}
	degraded(t, g.Post(t, apptest.ChatBody), true)
	g.AwaitMetric(t, `breakwater_circuit_state{model="chat",provider="context",region="default"}`, "1")

	assembler.Answers(contextasmtest.Knows("tides follow the moon"))
	assembler.Restart()
	apptest.Eventually(t, func() string {
		if answer := g.Post(t, apptest.ChatBody); answer.Header.Get("X-Breakwater-Degraded") != "" {
			return "the context is still missing"
		}
		return ""
	})
	if c := g.Circuit(t, contextCircuit); c.State != "closed" {
		t.Errorf("the circuit is %+v, want it closed again", c)
	}
	requests := a.Requests()
	if got := requests[len(requests)-1].Body; got != withFact(apptest.ChatBody) || requests[0].Body != plainly(apptest.ChatBody) {
		t.Errorf("the model got %s first and %s in the end", requests[0].Body, got)
	}
	runs := g.Runs(t, len(requests))
	if first, last := runs[0]["degraded"], runs[len(runs)-1]["degraded"]; first != "context" || last != nil {
		t.Errorf("the first run is degraded by %v and the last by %v, want context and nothing", first, last)
	}
}

// A silent assembler costs a call its time-out at most. A stream says in its
// header that it goes on without, and nothing in it changes.
func TestAStreamGoesOnWithoutItsContext(t *testing.T) {
	t.Parallel()
	assembler := contextasmtest.Start(t)
	assembler.Answers(contextasmtest.Hangs)
	a := apptest.NewUpstream(t, apptest.Stream(apptest.RoleChunk, apptest.Chunk("ok"), apptest.FinishChunk, apptest.UsageChunk, apptest.Done))
	g := apptest.Start(t, helped(assembler.Address, "100ms", "circuit_breaker: {failure_threshold: 2, cooldown: 1h, max_cooldown: 1h}")(a))

	for i := range 3 {
		answer := g.Post(t, apptest.StreamBody)
		if answer.Status != 200 || answer.Content(t) != "ok" || strings.Contains(answer.Body, "ai_degraded") {
			t.Fatalf("stream %d: %d %s", i+1, answer.Status, answer.Body)
		}
		if got := answer.Header.Get("X-Breakwater-Degraded"); got != "context" {
			t.Errorf("stream %d: degraded by %q, want context", i+1, got)
		}
	}
	if c := g.Circuit(t, contextCircuit); c.State != "open" || c.Class != "deadline_exceeded" || c.Rejected != 1 {
		t.Errorf("the circuit is %+v, want it open by two deadlines, and one call rejected", c)
	}
	for i, run := range g.Runs(t, 3) {
		if run["degraded"] != "context" || run["outcome"] != "success" {
			t.Errorf("run %d: %v", i+1, run.Only(apptest.Row{"degraded": nil, "outcome": nil}))
		}
	}
}

// An operator may take an assembler out of the way, like any target; the page
// shows its circuit, and says what that means to callers.
func TestAnOperatorTakesAnAssemblerAway(t *testing.T) {
	t.Parallel()
	assembler := contextasmtest.Start(t)
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, helped(assembler.Address, "20s", "")(a))
	if answer := g.Steer(t, contextCircuit, "open", `{"reason":"it lies"}`); answer.Status != 200 {
		t.Fatalf("open: %d %s", answer.Status, answer.Body)
	}
	degraded(t, g.Post(t, apptest.ChatBody), true)
	if n := len(assembler.Asked()); n != 0 {
		t.Errorf("the assembler was asked %d times", n)
	}
	if page := apptest.Get(t, g.AdminURL+"/").Body; !strings.Contains(page, contextCircuit) || !strings.Contains(page, "Calls of chat are answered without their context meanwhile.") {
		t.Errorf("the page does not say it:\n%s", page)
	}
	if answer := g.Steer(t, contextCircuit, "close", ""); answer.Status != 200 {
		t.Fatalf("close: %d %s", answer.Status, answer.Body)
	}
	degraded(t, g.Post(t, apptest.ChatBody), false)
}

// A reload may name another assembler, or none; calls in flight end with theirs.
func TestAReloadChangesTheAssembler(t *testing.T) {
	t.Parallel()
	one, two := contextasmtest.Start(t), contextasmtest.Start(t)
	one.Answers(contextasmtest.Knows("one"))
	two.Answers(contextasmtest.Knows("two"))
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, helped(one.Address, "20s", "")(a))
	sent := func() string {
		t.Helper()
		degraded(t, g.Post(t, apptest.ChatBody), false)
		requests := a.Requests()
		return requests[len(requests)-1].Body
	}
	if got := sent(); !strings.Contains(got, `"one"`) {
		t.Errorf("the model got %s, want it to hold one", got)
	}
	g.MustReload(t, helped(one.Address, "19s", "")(a)) // the same connection
	if got := sent(); !strings.Contains(got, `"one"`) {
		t.Errorf("the model got %s, want it to hold one still", got)
	}
	g.MustReload(t, helped(two.Address, "20s", "")(a))
	if got := sent(); !strings.Contains(got, `"two"`) {
		t.Errorf("the model got %s, want it to hold two", got)
	}
	g.MustReload(t, apptest.OneTarget(a))
	if got := sent(); got != plainly(apptest.ChatBody) {
		t.Errorf("the model got %s, want the request", got)
	}
	if listed := apptest.Get(t, g.AdminURL+"/api/v1/circuits").Body; strings.Contains(listed, contextCircuit) {
		t.Errorf("the circuit of nobody is listed: %s", listed)
	}
	if len(one.Asked()) != 2 || len(two.Asked()) != 1 {
		t.Errorf("asked %d and %d times, want 2 and 1", len(one.Asked()), len(two.Asked()))
	}
}
