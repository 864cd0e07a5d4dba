package breaker_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/breaker/replicatest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// deed is something that happens to a store.
type deed struct {
	name  string
	do    func(*redistest.Server)
	undo  func(*redistest.Server)
	times int
	lasts time.Duration
}

func nothing(*redistest.Server) {}

var deeds = []deed{
	{"killed", (*redistest.Server).Kill, (*redistest.Server).Restart, 1, outage},
	{"frozen", (*redistest.Server).Freeze, (*redistest.Server).Thaw, 1, outage},
	{"flushed", (*redistest.Server).FlushAll, nothing, 5, blink},
	{"without scripts", (*redistest.Server).FlushScripts, nothing, 5, blink},
	{"restarted", (*redistest.Server).Restart, nothing, 2, outage / 2},
}

// outage is how long a store is away in a test: longer than replicas leave it
// alone; blink is the time between two deeds of a moment.
const (
	outage = 1500 * time.Millisecond
	blink  = 300 * time.Millisecond
)

// TestHealthyCallsGoWhateverBecomesOfTheStore: no call is refused, fails or waits
// for a store that does not answer (R41), and afterwards all replicas see the
// same (X07).
func TestHealthyCallsGoWhateverBecomesOfTheStore(t *testing.T) {
	t.Parallel()
	for _, mode := range []breaker.Mode{breaker.Cached, breaker.Strict} {
		for _, d := range deeds {
			name := map[breaker.Mode]string{breaker.Cached: "cached ", breaker.Strict: "strict "}[mode] + d.name
			t.Run(name, func(t *testing.T) { suffer(t, mode, d) })
		}
	}
}

func suffer(t *testing.T, mode breaker.Mode, d deed) {
	f := launch(t, 4, replicatest.Config{Settings: with(func(s *breaker.Settings) {
		s.Store, s.Cooldown, s.MaxCooldown = mode, time.Hour, time.Hour
	})})
	f.meet(key)
	f.load(replicatest.Load{Key: key, Callers: 4, Took: 2 * time.Millisecond, Pause: 2 * time.Millisecond})
	for range d.times {
		d.do(f.store)
		<-time.After(d.lasts)
		if d.times > 1 {
			d.undo(f.store)
		}
	}
	for i, tally := range f.rest() {
		if tally.Refused > 0 || tally.Calls == 0 || tally.Failures > 0 {
			t.Errorf("replica %d: %d calls went, %d failed, %d were refused; want some, none and none", i, tally.Calls, tally.Failures, tally.Refused)
		}
		t.Logf("replica %d: to acquire took %v; to end %v; pauses were late by %v", i, tally.Acquire, tally.Done, tally.Late)
		judgeWaits(t, i, tally)
	}
	fail(t, f.replicas[0], 5)
	if d.times == 1 {
		d.undo(f.store)
	}
	// On a busy machine the answer to the news may be late, and they are not told
	// twice: the target is still failing then.
	took := until(t, storeSlack, "all see that the circuit is open", func() bool {
		all := f.circuits(key)
		if all[0].State == breaker.Closed {
			failIfAdmitted(t, f.replicas[0])
		}
		return agree(all, breaker.Open)
	})
	t.Logf("all agree %v after the store was there", took.Round(time.Millisecond))
	f.stop()
}

// storeSlack is how long a busy machine may take until all replicas agree.
// storeWait is the longest that one call may wait, of which an idle machine needs
// 10 ms, and storeHalf half of all calls; a machine that is late with everything
// is late with that, too, as often as the clock rings on the way.
const (
	storeSlack = time.Minute
	storeWait  = 2 * time.Second
	storeHalf  = 50 * time.Millisecond
	rings      = 4
)

// judgeWaits holds calls to the time-out: nearly none waits at all, and none for
// long.
func judgeWaits(t *testing.T, i int, tally replicatest.Tally) {
	t.Helper()
	for name, s := range map[string]replicatest.Spread{"acquire": tally.Acquire, "end": tally.Done} {
		if s.P50 > storeHalf+rings*tally.Late.P50 || s.Max > storeWait+rings*tally.Late.Max {
			t.Errorf("replica %d: calls waited for the store to %s them: %v; pauses were late by %v", i, name, s, tally.Late)
		}
	}
}

// What a person has said comes back by itself when the store has lost it (T24).
func TestWhatAPersonSaidOutlivesTheStore(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		action breaker.Action
		state  breaker.State
		lose   deed
	}{
		{breaker.ActionOpen, breaker.ForcedOpen, deeds[2]},
		{breaker.ActionDisable, breaker.Disabled, deeds[2]},
		{breaker.ActionShadow, breaker.Shadow, deeds[2]},
		{breaker.ActionOpen, breaker.ForcedOpen, deeds[4]},
	} {
		t.Run(string(row.action)+" "+row.lose.name, func(t *testing.T) {
			f := launch(t, 4, replicatest.Config{Settings: with(func(s *breaker.Settings) { s.Store = breaker.Cached })})
			f.meet(key)
			if err := f.replicas[0].Command(key, breaker.Command{Action: row.action, Actor: "ann", Note: "because"}); err != nil {
				t.Fatal(err)
			}
			until(t, storeSlack, "all obey", func() bool { return agree(f.circuits(key), row.state) })
			for _, r := range f.replicas {
				if _, err := r.Events(); err != nil {
					t.Fatal(err)
				}
			}
			f.load(replicatest.Load{Key: key, Callers: 4, Pause: 2 * time.Millisecond, Took: time.Millisecond, Failing: 1})
			row.lose.do(f.store)
			took := until(t, storeSlack, "the store knows again", func() bool { return len(f.store.Keys()) == 2 })
			t.Logf("the store knew again after %v", took.Round(time.Millisecond))
			until(t, storeSlack, "all agree", func() bool { return agree(f.circuits(key), row.state) })
			judgeObedience(t, f, row.state)
			f.stop()
		})
	}
}

// judgeObedience holds the replicas to what a person has said all the time, and
// still says.
func judgeObedience(t *testing.T, f *fleet, s breaker.State) {
	t.Helper()
	for i, tally := range f.rest() {
		if s == breaker.ForcedOpen && (tally.Calls > 0 || tally.Refused == 0) || s != breaker.ForcedOpen && (tally.Refused > 0 || tally.Calls == 0) {
			t.Errorf("replica %d: %s admitted %d calls and refused %d", i, s, tally.Calls, tally.Refused)
		}
	}
	for i, c := range f.circuits(key) {
		if diff := cmp.Diff([]string{"ann", "because"}, []string{c.Actor, c.Note}); diff != "" {
			t.Errorf("replica %d (-want +got):\n%s", i, diff)
		}
	}
	for _, r := range f.replicas {
		events, err := r.Events()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.From != breaker.Shadow || e.To != breaker.Shadow {
				t.Errorf("told that the circuit went from %s to %s (%s), though nobody has said anything", e.From, e.To, e.Reason)
			}
		}
	}
}
