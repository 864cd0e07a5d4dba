package operators_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

func TestADecisionReachesEveryNodeAndIsToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShelf()
		a, b := start(t, s), start(t, s)
		for _, step := range []struct {
			action breaker.Action
			state  string
		}{
			{breaker.ActionOpen, "forced_open"}, {breaker.ActionDisable, "disabled"}, {breaker.ActionShadow, "shadow"}, {breaker.ActionClose, "closed"},
			{breaker.ActionOpen, "forced_open"}, {breaker.ActionReset, "closed"},
		} {
			if !a.command("k", step.action, 0) {
				t.Errorf("%s is not saved", step.action)
			}
			a.want("k", step.state)
			settle()
			a.want("k", step.state)
			b.want("k", step.state)
			settle()
		}
		wantKept(t, s)
		if again := a.circuits.taken(); len(again) > 0 {
			t.Errorf("the node that was told first was told again: %v", again)
		}
		if diff := cmp.Diff([]string{"k close", "k close", "k disable", "k open", "k open", "k shadow"}, b.circuits.taken()); diff != "" {
			t.Errorf("the other node was told (-want +got):\n%s", diff)
		}
		if len(b.events) > 0 {
			t.Errorf("the other node tells events of its own: %v", b.events)
		}
		snapshot, _ := b.circuits.Circuit("k")
		if snapshot.Note != "" || snapshot.Actor != "" {
			t.Errorf("a closed circuit has words: %+v", snapshot)
		}
		a.end()
		b.end()
	})
}

func TestADecisionOutlivesARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShelf()
		a := start(t, s)
		a.command("k", breaker.ActionOpen, 0)
		a.command("timed", breaker.ActionDisable, time.Hour)
		a.command("over", breaker.ActionShadow, time.Minute)
		a.end()
		wait(20 * time.Minute)

		b := start(t, s) // at once, before anything is looked for again
		b.want("k", "forced_open")
		b.want("timed", "disabled")
		b.want("over", "closed")
		snapshot, _ := b.circuits.Circuit("k")
		if snapshot.Note != "because" || snapshot.Actor != "ada" || !snapshot.Until.IsZero() {
			t.Errorf("the words are lost: %q by %q until %s", snapshot.Note, snapshot.Actor, snapshot.Until)
		}
		timed, _ := b.circuits.Circuit("timed")
		if left := time.Until(timed.Until); left.Round(time.Second) != 40*time.Minute {
			t.Errorf("%s are left, want 40m", left)
		}
		wantKept(t, s, "k forced_open", "timed disabled")
		b.end()
	})
}

// When the time of a forced-open circuit is up it probes, on every node, instead
// of being closed by the row that has gone.
func TestTheEndOfATimeLeadsToProbesOnEveryNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShelf()
		a, b := start(t, s), start(t, s)
		a.command("k", breaker.ActionOpen, time.Minute)
		settle()
		b.want("k", "forced_open")
		wait(time.Minute)
		a.want("k", "half_open")
		b.want("k", "half_open")
		settle()
		wantKept(t, s)
		a.end()
		b.end()
	})
}

func TestCommandsWorkWhileTheStoreIsAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShelf()
		a, b := start(t, s), start(t, s)
		a.command("open before", breaker.ActionOpen, 0)
		settle()
		a.way.cut(true)
		if a.command("k", breaker.ActionOpen, 0) || a.command("open before", breaker.ActionClose, 0) || a.command("short", breaker.ActionOpen, 10*time.Second) {
			t.Error("what cannot be saved is told as saved")
		}
		wait(time.Minute)
		a.want("k", "forced_open")
		a.want("open before", "closed")
		b.want("open before", "forced_open")
		a.way.cut(false)
		settle()
		settle()
		b.want("k", "forced_open")
		b.want("open before", "closed")
		wantKept(t, s, "k forced_open")
		if n := strings.Count(a.logs.String(), "cannot be read or written"); n != 1 {
			t.Errorf("the log says %d times that decisions cannot be read:\n%s", n, a.logs)
		}
		a.end()
		b.end()
	})
}

// What was decided elsewhere while a node was cut off is later than what that
// node decided before.
func TestTheLaterDecisionHolds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShelf()
		a, b := start(t, s), start(t, s)
		a.way.cut(true)
		a.command("k", breaker.ActionOpen, 0)
		a.command("l", breaker.ActionClose, 0)
		wait(10 * time.Second)
		b.command("k", breaker.ActionShadow, 0)
		b.command("l", breaker.ActionDisable, 0)
		wait(10 * time.Second)
		a.way.cut(false)
		settle()
		settle()
		for _, n := range []*node{a, b} {
			n.want("k", "shadow")
			n.want("l", "disabled")
		}
		wantKept(t, s, "k shadow", "l disabled")
		a.end()
		b.end()
	})
}

// A database that hangs may do later what it was sent before, in any order: a
// person's last word holds.
func TestAWriteThatComesLateUndoesNothing(t *testing.T) {
	for name, last := range map[string]breaker.Action{"closed": breaker.ActionClose, "shadow": breaker.ActionShadow} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newShelf()
				a, b := start(t, s), start(t, s)
				a.way.freeze()
				a.command("k", breaker.ActionOpen, 0)
				wait(10 * time.Second)
				a.command("k", last, 0)
				wait(10 * time.Second)
				a.want("k", name)
				a.way.thaw()
				for range 5 {
					a.want("k", name)
					settle()
				}
				b.want("k", name)
				a.end()
				b.end()
			})
		})
	}
}

// Before the database was there for the first time nobody knows what it shows
// for the time.
func TestADecisionBeforeTheStoreWasEverThere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShelf()
		b := start(t, s)
		a := newNode(t, s)
		a.way.cut(true)
		a.command("k", breaker.ActionOpen, time.Hour)
		a.command("l", breaker.ActionOpen, 0)
		wait(10 * time.Second)
		b.command("k", breaker.ActionDisable, 0)
		wait(10 * time.Second)
		a.way.cut(false)
		a.overrides.Start()
		settle()
		for _, n := range []*node{a, b} {
			n.want("k", "disabled")
			n.want("l", "forced_open")
		}
		a.end()
		b.end()
	})
}

// A shared cache forgets what it is not told again.
func TestCircuitsAreToldAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShelf()
		a := start(t, s)
		a.command("k", breaker.ActionOpen, 0)
		a.command("timed", breaker.ActionShadow, 30*time.Minute)
		a.command("l", breaker.ActionClose, 0)
		wait(9 * time.Minute)
		if again := a.circuits.taken(); len(again) > 0 {
			t.Errorf("told again too early: %v", again)
		}
		wait(2 * time.Minute)
		want := []string{"k open", "timed shadow"}
		if diff := cmp.Diff(want, a.circuits.taken()); diff != "" {
			t.Errorf("told after ten minutes (-want +got):\n%s", diff)
		}
		a.overrides.Reassert()
		wait(time.Millisecond)
		if diff := cmp.Diff(want, a.circuits.taken()); diff != "" {
			t.Errorf("told when asked for (-want +got):\n%s", diff)
		}
		a.way.cut(true)
		a.overrides.Reassert()
		wait(time.Millisecond)
		if diff := cmp.Diff(want, a.circuits.taken()); diff != "" {
			t.Errorf("told without the store (-want +got):\n%s", diff)
		}
		timed, _ := a.circuits.Circuit("timed")
		if left := time.Until(timed.Until); left.Round(time.Second) != 19*time.Minute {
			t.Errorf("%s are left after that, want 19m", left)
		}
		a.way.cut(false)
		a.end()
	})
}

// What a gateway that shares the circuits has said, and could not write down, is
// not taken back by what is told again.
func TestWhatIsToldAgainTakesNoLaterWordBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShelf()
		a := start(t, s)
		for _, key := range []string{"k", "l", "m"} {
			a.command(key, breaker.ActionOpen, 0)
		}
		for _, away := range []bool{false, true} {
			a.way.cut(away)
			for key, action := range map[string]breaker.Action{"k": breaker.ActionClose, "l": breaker.ActionShadow} {
				if _, err := a.circuits.Registry.Command(t.Context(), key, breaker.Command{Action: action, Actor: "bob"}); err != nil {
					t.Error(err)
				}
			}
			a.circuits.taken()
			a.overrides.Reassert()
			wait(time.Millisecond)
			if diff := cmp.Diff([]string{"m open"}, a.circuits.taken()); diff != "" {
				t.Errorf("told again with the store away %t (-want +got):\n%s", away, diff)
			}
		}
		a.way.cut(false)
		a.end()
	})
}

func TestAStopWritesWhatWaitsOrSaysWhatIsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShelf()
		a := start(t, s)
		a.way.cut(true)
		a.command("k", breaker.ActionOpen, 0)
		a.way.cut(false)
		a.end()
		wantKept(t, s, "k forced_open")

		b := start(t, s)
		b.way.cut(true)
		b.command("k", breaker.ActionClose, 0)
		b.command("m", breaker.ActionOpen, 0)
		if err := b.stop(); err == nil || !strings.Contains(err.Error(), "k, m") {
			t.Errorf("the stop says %v, want both circuits named", err)
		}

		never := newNode(t, s)
		never.end()
	})
}

func TestACommandThatACircuitRefusesIsNotKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShelf()
		a := start(t, s)
		a.command("k", breaker.ActionOpen, 0)
		_, saved, err := a.overrides.Command(t.Context(), "k", breaker.Command{Action: breaker.ActionHalfOpen, Actor: "ada"})
		var illegal *breaker.IllegalTransition
		if saved || !errors.As(err, &illegal) {
			t.Errorf("saved %t, %v; want an illegal transition", saved, err)
		}
		settle()
		wantKept(t, s, "k forced_open")
		a.end()
	})
}
