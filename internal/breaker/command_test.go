package breaker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// TestCommands holds what a person may do to a circuit to what the states mean;
// the ids are those of the breaker's specification.
func TestCommands(t *testing.T) {
	t.Parallel()
	on := newStores(t)
	tests := []struct {
		name   string
		change func(*breaker.Settings)
		script string
	}{
		{"C18 a reset of a closed circuit", nil, "S F n=2 f=1 !reset closed n=0 f=0 c=0 by=operator"},
		{"C18 a reset of an open circuit", threshold(1), "F open !reset closed n=0 f=0"},
		{"C19 disabled admits and counts nothing", threshold(3), "!disable S F F F F disabled n=0 f=0 c=0"},
		{"C20 forced open refuses for good", threshold(1), "S !open x forced_open +6s x r=2 +10h x forced_open"},
		{"C23 shadow begins with nothing", nil, "S S n=2 !shadow n=0"},
		{"C25 every state may go to shadow (closed)", nil, "S !shadow shadow"},
		{"C25 every state may go to shadow (open)", threshold(1), "F !shadow shadow"},
		{"C25 every state may go to shadow (half-open)", threshold(1), "F +30s a1 !shadow shadow"},
		{"C25 every state may go to shadow (forced open)", nil, "!open !shadow shadow"},
		{"C25 every state may go to shadow (disabled)", nil, "!disable !shadow shadow"},
		{"C25 every state may go to itself", nil, "!open !open forced_open !disable !disable disabled !shadow !shadow shadow !close !close closed"},
		{"C28 a circuit may begin closed", nil, "!close closed S n=1"},
		{"C28 a circuit may begin open", nil, "!open forced_open x"},
		{"C28 a circuit may begin in shadow", nil, "!shadow S n=1 shadow"},
		{"C28 a circuit may begin disabled", nil, "!disable S n=0 disabled"},
		{"T20 a call admitted before does not count after", threshold(1), "a1 !open F1 stale=1 forced_open"},
		{"T20 with a time it falls back to a probe", threshold(1), "S !open(10m) x +9m59s x +1s a1 x half_open by=override_over"},
		{"T20 its probe closes", threshold(1), "S !open(10m) +10m S closed"},
		{"T20 its probe re-opens, one step on", threshold(1), "S !open(10m) +10m F open +59s x +1s S closed"},
		{"T21 disabled ends by its time", threshold(1), "!disable(1m) F F disabled +1m sweep closed F open"},
		{"T21 shadow ends by its time", threshold(1), "!shadow(1m) F F shadow +1m sweep closed F open"},
		{"T22 close forgets the step", threshold(1), "F +30s F open +60s F open !close closed F open +30s S closed"},
		{"T22 close of a forced open circuit", nil, "!open x !close S closed"},
		{"T23 the same state again is no transition", threshold(2), "F c=1 !close c=1 F open"},
		{"shadow would have opened and counts anew", threshold(2), "!shadow F F shadow n=0 F F n=2 c=2 +30s F shadow n=0"},
		{"shadow hears hints and stays", nil, "!shadow F(2m) shadow n=0 S shadow"},
		{"a person may ask for a probe", threshold(1), "F x !half_open a1 x S1 closed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, on, with(tt.change), func(g *rig) { g.play(tt.script) })
		})
	}
}

// C24, T25: a closed circuit has nothing to find out.
func TestHalfOpenIsNoCommandForAClosedCircuit(t *testing.T) {
	t.Parallel()
	g := setup(t, defaults())
	g.play("S")
	_, err := g.Command(t.Context(), key, breaker.Command{Action: breaker.ActionHalfOpen})
	var illegal *breaker.IllegalTransition
	if !errors.As(err, &illegal) {
		t.Fatalf("got %v, want an illegal transition", err)
	}
	want := breaker.IllegalTransition{Key: key, From: breaker.Closed, To: breaker.HalfOpen}
	if diff := cmp.Diff(want, *illegal); diff != "" {
		t.Error(diff)
	}
	g.play("closed n=1")
}

func TestUnknownActionIsRefused(t *testing.T) {
	t.Parallel()
	g := setup(t, defaults())
	if _, err := g.Command(t.Context(), key, breaker.Command{Action: "destroy"}); err == nil {
		t.Error("a command without meaning was obeyed")
	}
}

// R31: nobody knows how long a person keeps a circuit open, unless that person
// has said so.
func TestRefusalOfAForcedOpenCircuit(t *testing.T) {
	t.Parallel()
	g := setup(t, defaults())
	g.play("!open")
	got := *g.refused()
	want := breaker.Refusal{Key: key, State: breaker.ForcedOpen, Reason: breaker.ReasonCircuitOpen, Generation: got.Generation}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	g.play("!open(90s) +500ms")
	if got := g.refused().RetryAfter; got != 90*time.Second {
		t.Errorf("got a wait of %v, want 90s", got)
	}
}

func TestWhoSaidWhyAndUntilWhen(t *testing.T) {
	t.Parallel()
	g := setup(t, defaults())
	g.play("!shadow(10m)")
	s := g.snapshot()
	if s.Actor != "ann" || s.Note != "because" {
		t.Errorf("got %q because of %q, want ann because of because", s.Actor, s.Note)
	}
	if left := time.Until(s.Until); left < 9*time.Minute || left > 10*time.Minute {
		t.Errorf("it lasts %v, want ten minutes", left)
	}
	g.play("!close")
	if s := g.snapshot(); s.Actor != "" || s.Note != "" || !s.Until.IsZero() {
		t.Errorf("a closed circuit remembers %+v", s)
	}
}

// A person's word counts where the settings want no circuit, too.
func TestCommandWithoutSettings(t *testing.T) {
	t.Parallel()
	g := setup(t, breaker.Settings{})
	g.play("S !open x forced_open !open(1m) +1m sweep closed S F F F F F F closed")
}

// What was decided before is restored without telling anybody, and only a
// state that a person had set is ended by its end.
func TestReassert(t *testing.T) {
	t.Parallel()
	s := with(threshold(1))
	g := setup(t, s)
	var told []breaker.Event
	g.Registry = breaker.New(breaker.Config{Settings: always(s), OnEvent: func(e breaker.Event) { told = append(told, e) }})
	again := func(a breaker.Action) breaker.State {
		t.Helper()
		got, err := g.Command(t.Context(), key, breaker.Command{Action: a, Reassert: true})
		if err != nil {
			t.Fatal(err)
		}
		return got.State
	}
	g.play("F open")
	for _, step := range []struct {
		action breaker.Action
		want   breaker.State
	}{
		{breaker.ActionClose, breaker.Open},
		{breaker.ActionOpen, breaker.ForcedOpen},
		{breaker.ActionClose, breaker.Closed},
	} {
		if got := again(step.action); got != step.want {
			t.Errorf("%s again: got %v, want %v", step.action, got, step.want)
		}
	}
	g.Start()
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || told[0].To != breaker.Open || told[0].Actor != breaker.ActorBreaker {
		t.Errorf("told %+v, want the first opening alone", told)
	}
}

func TestEventsOfCommands(t *testing.T) {
	t.Parallel()
	s := with(threshold(2))
	g := setup(t, s)
	var told []string
	g.Registry = breaker.New(breaker.Config{Settings: always(s), OnEvent: func(e breaker.Event) {
		told = append(told, e.From.String()+" "+e.To.String()+" "+e.Reason+" "+e.Actor+" "+e.Note)
	}})
	g.play("!reset !shadow F F !disable !close !close")
	g.Start()
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"closed closed operator ann because",
		"closed shadow operator ann because",
		"shadow shadow consecutive breaker ",
		"shadow disabled operator ann because",
		"disabled closed operator ann because",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}
