package pipeline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

// assembler answers what a test tells it.
type assembler struct {
	asked  []string
	answer func(ctx context.Context) ([]string, error)
}

func (a *assembler) Assemble(ctx context.Context, call *llm.Call, text string) ([]string, error) {
	a.asked = append(a.asked, call.CorrelationID+": "+text)
	return a.answer(ctx)
}

func knows(texts ...string) *assembler {
	return &assembler{answer: func(context.Context) ([]string, error) { return texts, nil }}
}

const question = `{"model":"chat","messages":[{"role":"user","content":"what is a tide?"}]}`

// assembled runs a call through the middleware and returns it as it went on, nil
// when it did not.
func assembled(ctx context.Context, t *testing.T, a *assembler, maxTokens int, call *llm.Call) (*llm.Call, error) {
	t.Helper()
	var passed *llm.Call
	handle := wrap(t, func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
		passed = call
		return &llm.Result{}, nil
	}, pipeline.NewContext(map[string]pipeline.ContextSource{"chat": {Assembler: a, MaxTokens: maxTokens}}))
	_, err := handle(ctx, call, nil)
	return passed, err
}

func asking(body string) *llm.Call {
	call := newCall(alpha)
	call.Body, call.Codec = []byte(body), openai.Codec{}
	return call
}

func TestContext_AddsWhatTheAssemblerKnows(t *testing.T) {
	t.Parallel()
	a, call := knows("tides follow the moon", "", "and the sun"), asking(question)
	passed, err := assembled(t.Context(), t, a, 1000, call)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"corr-1: what is a tide?"}, a.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	want := llm.Insertion{At: 28, Text: []byte(`{"role":"system","content":"tides follow the moon"},{"role":"system","content":"and the sun"},`)}
	if diff := cmp.Diff(want, passed.Insert); diff != "" {
		t.Errorf("insertion (-want +got):\n%s", diff)
	}
	if got, want := passed.Facts.TextBytes, call.Facts.TextBytes+32; got != want {
		t.Errorf("%d bytes of text, want %d", got, want)
	}
	if string(passed.Body) != question || len(call.Insert.Text) != 0 || call.Signals.Degraded != "" {
		t.Errorf("the call itself has changed: %s %q %q", passed.Body, call.Insert.Text, call.Signals.Degraded)
	}
}

// Messages are left out whole, from the end.
func TestContext_KeepsToItsTokens(t *testing.T) {
	t.Parallel()
	const one = `{"role":"system","content":"12345678"},` // two tokens
	tests := map[string]struct {
		texts     []string
		maxTokens int
		want      string
		degraded  llm.Degradation
	}{
		"all fit":                        {[]string{"12345678", "12345678"}, 4, one + one, ""},
		"the second does not":            {[]string{"12345678", "123456789"}, 4, one, ""},
		"nor does a small one behind it": {[]string{"12345678", "123456789", "1"}, 4, one, ""},
		"not even the first":             {[]string{"12345678"}, 1, "", llm.DegradedContext},
		"none is known":                  {nil, 4, "", ""},
		"only empty ones":                {[]string{"", ""}, 4, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			call := asking(question)
			passed, err := assembled(t.Context(), t, knows(tt.texts...), tt.maxTokens, call)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(passed.Insert.Text); got != tt.want || call.Signals.Degraded != tt.degraded {
				t.Errorf("inserted %s, degraded %q; want %s and %q", got, call.Signals.Degraded, tt.want, tt.degraded)
			}
		})
	}
}

// Whatever becomes of the question, the call goes on as it came.
func TestContext_NeverCostsACallItsAnswer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(context.Context) ([]string, error){
		"an error":                     func(context.Context) ([]string, error) { return nil, errors.New("away") },
		"an error with half an answer": func(context.Context) ([]string, error) { return []string{"half"}, errors.New("away") },
		"a panic":                      func(context.Context) ([]string, error) { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			call := asking(question)
			passed, err := assembled(t.Context(), t, &assembler{answer: answer}, 1000, call)
			if err != nil || passed != call {
				t.Fatalf("went on as %v with %v, want the call itself", passed, err)
			}
			if call.Signals.Degraded != llm.DegradedContext {
				t.Errorf("degraded: %q", call.Signals.Degraded)
			}
		})
	}
}

func TestContext_LeavesOthersAlone(t *testing.T) {
	t.Parallel()
	other, direct := asking(question), asking(question)
	other.Configuration, direct.Configuration = "other", ""
	for name, call := range map[string]*llm.Call{
		"another configuration":    other,
		"a direct target":          direct,
		"without a word of a user": asking(`{"model":"chat","messages":[{"role":"system","content":"x"}]}`),
	} {
		a := knows("fact")
		passed, err := assembled(t.Context(), t, a, 1000, call)
		if err != nil || passed != call || len(a.asked) > 0 || call.Signals.Degraded != "" {
			t.Errorf("%s: went on as %v with %v, asked %q", name, passed, err, a.asked)
		}
	}
}

// A caller who leaves meanwhile is not passed on to a provider, and the answer
// does not lack anything: there is none.
func TestContext_EndsWithItsCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	a := &assembler{answer: func(ctx context.Context) ([]string, error) {
		cancel(llm.ErrClientLeft)
		return nil, ctx.Err()
	}}
	call := asking(question)
	passed, err := assembled(ctx, t, a, 1000, call)
	if f := llm.AsFailure(err); passed != nil || f == nil || f.Class != llm.ClassCancelled || f.Reason != llm.ReasonClientLeft {
		t.Errorf("went on as %v with %v, want it cancelled", passed, err)
	}
	if call.Signals.Degraded != "" {
		t.Errorf("degraded: %q", call.Signals.Degraded)
	}
}

// The run says what it had to do without, and the wait is not the gateway's own.
func TestContext_IsToldInTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := new(records)
		a := &assembler{answer: func(ctx context.Context) ([]string, error) {
			<-time.After(200 * time.Millisecond)
			return nil, errors.New("away")
		}}
		handle := wrap(t, terminal(script(alpha, answers(time.Second)), pipeline.Policy{}).Handle,
			pipeline.NewTelemetry(runs), pipeline.NewFallback(nil, nil),
			pipeline.NewContext(map[string]pipeline.ContextSource{"chat": {Assembler: a, MaxTokens: 1000}}))
		if _, err := handle(t.Context(), asking(question), nil); err != nil {
			t.Fatal(err)
		}
		run := runs.only(t)
		if run.Degraded != llm.DegradedContext || run.Outcome != llm.RunSuccess || len(run.Attempts) != 1 {
			t.Errorf("run %+v, want a degraded success of one attempt", run)
		}
		if run.Latency != 1200*time.Millisecond || run.Overhead != 0 {
			t.Errorf("latency %v, overhead %v; want 1.2s and none", run.Latency, run.Overhead)
		}
	})
}

// What is added counts when targets are chosen by their size.
func TestContext_CountsForTheWindow(t *testing.T) {
	t.Parallel()
	u := script(alpha, answers(0)).and(beta, answers(0))
	call := asking(question)
	call.Targets, call.Facts.TextBytes = []llm.Target{alpha, beta}, 15
	handle := wrap(t, terminal(u, pipeline.Policy{}).Handle,
		pipeline.NewFallback(nil, pipeline.Windows{alpha: {Context: 4}, beta: {Context: 100}}),
		pipeline.NewContext(map[string]pipeline.ContextSource{"chat": {Assembler: knows("a fact"), MaxTokens: 1000}}))
	if _, err := handle(t.Context(), call, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]llm.Target{beta}, u.sends); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}
