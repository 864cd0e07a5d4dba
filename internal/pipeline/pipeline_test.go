package pipeline_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/leaktest"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// CF-P1: the order is a list; the priorities, not the arguments, make it.
func TestStack_Order_CF_P1(t *testing.T) {
	t.Parallel()

	stack, err := pipeline.New(
		terminal(script(alpha, answers(0)), pipeline.Policy{}).Handle,
		pipeline.NewCircuitBreaker(nil, nil, nil),
		pipeline.NewTelemetry(nil),
		pipeline.NewUsage(nil),
		pipeline.NewFallback(nil, nil),
	)
	if err != nil {
		t.Fatal(err)
	}

	type entry struct {
		Name     string
		Priority int
	}
	var got []entry
	for _, m := range stack.Middlewares() {
		got = append(got, entry{m.Name(), m.Priority()})
	}
	want := []entry{{"telemetry", 110}, {"fallback", 50}, {"usage", 25}, {"circuit_breaker", 20}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stack (-want +got):\n%s", diff)
	}
}

// layer is a middleware that leaves its name on the way in and out.
type layer struct {
	name     string
	priority int
	trail    *[]string
	around   func(next pipeline.Handler) pipeline.Handler
}

func (l layer) Name() string  { return l.name }
func (l layer) Priority() int { return l.priority }
func (l layer) Wrap(next pipeline.Handler) pipeline.Handler {
	if l.around != nil {
		return l.around(next)
	}
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		*l.trail = append(*l.trail, l.name+" in")
		result, err := next(ctx, call, emit)
		*l.trail = append(*l.trail, l.name+" out")
		return result, err
	}
}

// CF-P2, CF-P3, CF-P4: none, one, several.
func TestStack_Composition(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name       string
		priorities map[string]int
		want       []string
	}{
		{"no middleware (CF-P2)", nil, []string{"terminal"}},
		{"one (CF-P3)", map[string]int{"a": 1}, []string{"a in", "terminal", "a out"}},
		{
			"the highest is outermost (CF-P4)",
			map[string]int{"low": 1, "high": 30, "mid": 2},
			[]string{"high in", "mid in", "low in", "terminal", "low out", "mid out", "high out"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var trail []string
			var layers []pipeline.Middleware
			for name, priority := range tt.priorities {
				layers = append(layers, layer{name: name, priority: priority, trail: &trail})
			}
			handle := wrap(t, func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) {
				trail = append(trail, "terminal")
				return &llm.Result{}, nil
			}, layers...)

			if _, err := handle(t.Context(), newCall(alpha), nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, trail); diff != "" {
				t.Errorf("trail (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStack_ShortCircuit_CF_P5(t *testing.T) {
	t.Parallel()

	var trail []string
	stored := &llm.Result{Body: []byte("stored")}
	handle := wrap(t, func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) {
		t.Error("the terminal ran although a middleware had answered")
		return nil, nil
	},
		layer{name: "outer", priority: 2, trail: &trail},
		layer{name: "store", priority: 1, around: func(pipeline.Handler) pipeline.Handler {
			return func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) { return stored, nil }
		}},
	)

	got, err := handle(t.Context(), newCall(alpha), nil)
	if got != stored || err != nil {
		t.Errorf("answer = %v, %v, want the stored one", got, err)
	}
	if diff := cmp.Diff([]string{"outer in", "outer out"}, trail); diff != "" {
		t.Errorf("trail (-want +got):\n%s", diff)
	}
}

// CF-P6, CF-P7: what a middleware changes reaches those inside it, those
// outside see the call as they passed it on, and all share one scratchpad.
func TestStack_SubstitutionAndSharedSignals_CF_P6_P7(t *testing.T) {
	t.Parallel()

	var inside *llm.Call
	handle := wrap(t, func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
		inside = call
		return &llm.Result{Target: call.Target}, nil
	},
		layer{name: "aim", priority: 1, around: func(next pipeline.Handler) pipeline.Handler {
			return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
				return next(ctx, call.WithTarget(beta, true), emit)
			}
		}},
	)

	call := newCall(alpha)
	if _, err := handle(t.Context(), call, nil); err != nil {
		t.Fatal(err)
	}
	if inside.Target != beta || !inside.MoreTargets {
		t.Errorf("the terminal saw %v, want beta", inside.Target)
	}
	if !call.Target.IsZero() {
		t.Errorf("the outer call was changed to %v", call.Target)
	}
	if inside.Signals != call.Signals {
		t.Error("the terminal wrote into signals of its own")
	}
}

func TestNew_RefusesAmbiguousOrder(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name string
		a, b layer
		want string
	}{
		{"one name twice", layer{name: "a", priority: 1}, layer{name: "a", priority: 2}, `"a" is in the stack twice`},
		{"one priority twice", layer{name: "a", priority: 7}, layer{name: "b", priority: 7}, `"a" and "b" share priority 7`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := pipeline.New(nil, tt.a, tt.b)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want it to say %s", err, tt.want)
			}
		})
	}
}
