package breaker_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// overTime and ofCalls open by a rate alone.
func overTime(span time.Duration, buckets, least int, rate breaker.Rate, test breaker.RateTest) breaker.Settings {
	return with(func(s *breaker.Settings) {
		s.FailureThreshold, s.FailureRate, s.RateTest, s.MinCalls = 0, rate, test, least
		s.Window = breaker.Window{Span: span, Buckets: buckets}
	})
}

func ofCalls(n, least int, rate breaker.Rate, test breaker.RateTest) breaker.Settings {
	s := overTime(0, 0, least, rate, test)
	s.Window = breaker.Window{Calls: n}
	return s
}

const half = breaker.All / 2

// standard is the rate of the contract without its streak.
func standard() breaker.Settings { return overTime(30*time.Second, 10, 10, half, breaker.Above) }

// TestRateConformance holds the circuit to what established breakers pin in
// their own tests where a rate opens it.
func TestRateConformance(t *testing.T) {
	t.Parallel()
	on := newStores(t)
	const above, atLeast = breaker.Above, breaker.AtLeast
	tests := []struct {
		name     string
		settings breaker.Settings
		script   string
	}{
		// When a rate opens.
		{"a sustained 60 % opens at the tenth outcome", standard(), "FSFSF FSFS closed n=9 rate=? F open n=10 f=6 rate=0.6 by=failure_rate"},
		{"C01 the rate of an empty window is unknown", standard(), "E closed n=0 f=0 rate=?"},
		{"C02 half of at least five in twenty seconds", overTime(20*time.Second, 20, 5, half, atLeast),
			"S +1s S +1s S +1s F +1s F closed rate=0.4 +1s F open n=6 f=3 rate=0.5"},
		{"R25 strictly above: half is not", overTime(20*time.Second, 20, 6, half, above), "SSSFFF closed rate=0.5 F open"},
		{"C56 more than half of three", overTime(30*time.Second, 10, 3, 600_000, atLeast), "F S F open rate=0.667"},
		{"C81 a rate does not care for a row", ofCalls(10, 10, breaker.All, above), "FSFFFFFFFF closed rate=0.9 FF open"},
		{"C82 two of the last three", ofCalls(3, 3, 666_666, atLeast), "F S closed F open"},
		{"C83 alternating never has three of four", ofCalls(4, 4, 750_000, atLeast), "SF/20 closed rate=0.5"},
		{"C102 the edge of min_calls, below", ofCalls(100, 10, 400_000, atLeast), "S FFFFFFFF closed rate=?"},
		{"C102 the edge of min_calls", ofCalls(100, 10, 400_000, atLeast), "S FFFFFFFF F open rate=0.9"},
		{"C102 the edge of the rate, below", ofCalls(100, 10, 400_000, atLeast), "S/60 F/39 closed"},
		{"C102 the edge of the rate", ofCalls(100, 10, 400_000, atLeast), "S/60 F/39 closed F open"},
		{"C116 below min_calls nothing opens, even when all fail", standard(), "F/9 closed c=9 rate=?"},
		{"R24 the success that makes the rate known opens", overTime(30*time.Second, 10, 5, half, above), "FFFF closed S open n=5 f=4"},
		{"R24 a success opens when others left the window", overTime(30*time.Second, 10, 5, half, above),
			"SSSSS +15s FFFF closed rate=0.444 +15s closed n=4 rate=? S open n=5 f=4"},
		{"R25 a limit of one needs every call to fail", ofCalls(20, 10, breaker.All, above), "S FFFFFFFFF closed F/11 open"},
		{"R25 a third is not rounded", ofCalls(3, 3, 333_334, atLeast), "FSS closed rate=0.333"},
		{"R25 49.5 % does not open at half", ofCalls(200, 200, half, atLeast), "S/101 F/99 closed rate=0.495"},
		{"T4 a hint opens whatever the rate", standard(), "F(7s) open by=retry_after +6s x +1s S closed"},
		{"T4 a hint decides when the rate is over its limit too", standard(), "F/9 F(7s) by=retry_after +7s a1"},

		// What a time window holds.
		{"C34 after a gap exactly the one record", overTime(5*time.Second, 5, 1, breaker.All, above), "SSS +5s n=0 F n=1 f=1"},
		{"C62 ten buckets of three seconds", overTime(30*time.Second, 10, 1000, half, above),
			`SFE/5 n=10 f=5 e=5 +3s SSF n=13 +3s SF n=15 +3s S n=16 +3s SF +3s SF +3s SF +3s SF +3s SF +3s SF
			 n=28 f=13 +3s n=18 f=8 c=1`},
		{"C64 neutral calls alone let time pass", overTime(10*time.Second, 10, 1, breaker.All, above), "S +5s E n=1 +5s E n=0"},
		{"C65 a span that is no multiple of its buckets is rounded up", overTime(10*time.Second, 3, 1, breaker.All, above), "S +10s n=1 +10ms n=0"},
		{"C72 a streak outlives the buckets it was counted in", overTime(10*time.Second, 10, 5, half, above), "F +5s F n=2 c=2 +6s n=1 c=2"},
		{"C94 two failures within 200 ms and no longer", overTime(200*time.Millisecond, 10, 3, half, above), "F F n=2 +210ms n=0"},
		{"C94 the third within them opens", overTime(200*time.Millisecond, 10, 3, half, above), "F S +50ms F open"},
		{"C113 ten a second apart in ten seconds", overTime(10*time.Second, 10, 100, half, above),
			"S +1s S +1s S +1s S +1s S +1s S +1s S +1s S +1s S +1s S +1s n=9 +1s n=8"},
		{"R23 an outcome belongs to the end of its call", overTime(10*time.Second, 10, 2, half, above), "a1 a2 +1h F1 closed F2 open n=2"},
		{"R23 a window of one bucket", overTime(10*time.Second, 1, 3, half, above), "FF +9s n=2 +1s n=0 FF closed"},
		{"T5 a window that slides opens nothing by itself", overTime(30*time.Second, 10, 2, half, above), "SSSS +15s FF closed +15s closed n=2 f=2 rate=1"},

		// What a count window holds.
		{"C31 the last ten, however old", ofCalls(10, 10, 700_000, above), "SSFF rate=? FFFF closed SSSS n=10 f=6 rate=0.6 +1h SSS n=10 f=3 rate=0.3"},
		{"C32 the last four", ofCalls(4, 1, breaker.All, above), "S n=1 FSSS n=4 f=1 rate=0.25 S n=4 f=0 rate=0"},
		{"C32 one more at a time", with(func(s *breaker.Settings) { s.FailureRate, s.Window, s.MinCalls = 0, breaker.Window{Calls: 4}, 1 }),
			"F rate=1 S rate=0.5 S rate=0.333 S rate=0.25 S rate=0 n=4 f=0"},
		{"C89 the last ten of seven", ofCalls(10, 7, half, above), "SFSFSFS n=7 f=3 rate=0.429"},
		{"C89 the last ten of many", ofCalls(10, 10, half, above), "SFSFSFS SSSF/3 SSS n=10 f=2 rate=0.2"},
		{"C99 a ring of a hundred", ofCalls(100, 50, breaker.All, above), "FSS/16 FS n=50 f=17 rate=0.34 S/100 n=100 f=0 rate=0"},
		{"R26 min_calls is at most the window", ofCalls(4, 100, half, above), "FFF closed rate=? F open"},

		// Both.
		{"a streak opens before there are calls for a rate", defaults(), "FFFFF open by=consecutive rate=?"},
		{"a rate opens where no streak is", defaults(), "SFFSFFSFFS open by=failure_rate c=0 n=10 f=6"},
		{"R27 a streak is remembered for two windows", with(func(s *breaker.Settings) { s.Cooldown = time.Second }), "F +60s F c=2 +60s c=2 +1us c=0 F c=1"},
		{"R27 or for two cooldowns", with(func(s *breaker.Settings) { s.Window = breaker.Window{Calls: 20} }), "F +60s F c=2 +60s c=2 +1us c=0 F c=1"},
		{"both at once are one transition", with(func(s *breaker.Settings) { s.FailureThreshold = 10 }), "F/10 open by=consecutive n=10 c=10"},

		// What clears a window (R29).
		{"R29 neither verdicts nor what was before are in a new window", standard(), "F/10 open +30s S closed n=0 f=0 rate=? F/9 closed n=9 F open"},
		{"R29 nothing is left of an old window after half-open failed", ofCalls(3, 3, half, atLeast), "FFF open +30s F open n=1 f=1 +60s S closed n=0 FF closed F open"},
		{"R26 an episode speaks of a rate when its slots are used", with(halfOpen(3, 2)), "F +30s F rate=? S rate=? half_open"},
		{"R8 nor are late successes", standard(), "a1 F/10 open +30s S S S1 n=1 stale=1"},
		{"BRK-07 late failures are not in a new window", overTime(30*time.Second, 10, 1, breaker.All, above), "a1 a2 F1 open +30s S closed F2 closed n=0 stale=1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, on, tt.settings, func(g *rig) { g.play(tt.script) })
		})
	}
}

// T2, R21: the event of an opening carries what the window showed, and the
// cause of the latest failure when it was a success that opened.
func TestEventOfARate(t *testing.T) {
	t.Parallel()
	s := overTime(30*time.Second, 10, 5, half, breaker.Above)
	told := make(chan breaker.Event, 1)
	r := breaker.New(breaker.Config{Settings: always(s), OnEvent: func(e breaker.Event) { told <- e }})
	r.Start()
	for _, letter := range "FFFFS" {
		var p breaker.Permit
		if err := r.Acquire(key, &p); err != nil {
			t.Fatal(err)
		}
		p.Done(outcome(byte(letter)))
	}
	got := <-told
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	got.At, got.OpenFor = time.Time{}, 0
	want := breaker.Event{
		Seq: 1, Key: key, From: breaker.Closed, To: breaker.Open, Reason: breaker.ReasonFailureRate, Cause: "server_error",
		Counts: breaker.Counts{Calls: 5, Failures: 4}, Exceeded: []string{"failure_rate"}, Generation: 2, Actor: breaker.ActorBreaker,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}

// R45: other limits count from the next outcome on and lose nothing; another
// window begins empty.
func TestReconfigureARate(t *testing.T) {
	t.Parallel()
	s := standard()
	g := setup(t, s)
	g.play("S/6 F/4 closed rate=0.4")

	s.FailureRate, s.RateTest = 400_000, breaker.AtLeast
	g.Reconfigure(always(s))
	g.play("closed n=10 f=4 E closed S closed rate=0.364 F open n=12 f=5")

	g = setup(t, standard())
	g.play("S/6 F/4 SS")
	s.FailureRate = 300_000
	g.Reconfigure(always(s))
	g.play("closed n=12 S open n=13 f=4") // a success is an outcome, too

	g = setup(t, standard())
	g.play("a1 F/10 +30s S closed S/5 F/4 S")
	g.Reconfigure(always(s))
	g.play("S1 S open stale=1 n=11 f=4") // one of an earlier generation is none

	g = setup(t, standard())
	g.play("S/6 F/4")
	s.Window = breaker.Window{Calls: 20}
	g.Reconfigure(always(s))
	g.play("closed n=0 F n=1")

	s.Enabled = false
	g.Reconfigure(always(s))
	g.play("SF/100")
	s.Enabled = true
	g.Reconfigure(always(s))
	g.play("closed n=1 f=1")
}

// C70, R28: however many at once, every outcome is counted exactly once: the
// successes that take no lock and the failures between them.
func TestEveryOutcomeIsCounted(t *testing.T) {
	t.Parallel()
	const workers, each = 12, 3000
	windows := map[string]breaker.Window{
		"time": {Span: time.Hour, Buckets: 1000}, "calls": {Calls: workers * each},
	}
	for name, window := range windows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := with(func(s *breaker.Settings) { s.FailureThreshold, s.FailureRate, s.Window = 1<<40, breaker.All, window })
			g := setup(t, s)
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					for i := range each {
						var p breaker.Permit
						if err := g.Acquire(key, &p); err != nil {
							t.Error(err)
							return
						}
						p.Done(outcome("SSSSSSSSSF"[(i+w)%10]))
						g.advance(time.Millisecond)
						if i%100 == 0 {
							g.snapshot()
						}
					}
				})
			}
			wg.Wait()
			got := g.snapshot()
			want := fmt.Sprint(workers*each, workers*each/10)
			if diff := cmp.Diff(want, fmt.Sprint(got.Calls, got.Failures)); diff != "" {
				t.Errorf("calls and failures (-want +got):\n%s", diff)
			}
		})
	}
}

// R24: no outcome is evaluated late. Whatever the order in which they end,
// eight failures of sixteen have opened the circuit when all have ended.
func TestNothingIsEvaluatedLate(t *testing.T) {
	t.Parallel()
	const calls = 16
	for name, s := range map[string]breaker.Settings{
		"time":  overTime(30*time.Second, 10, calls, half, breaker.AtLeast),
		"calls": ofCalls(calls, calls, half, breaker.AtLeast),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 500 {
				g := setup(t, s)
				g.play("S n=1 S") // the second opens a way without the lock
				var wg sync.WaitGroup
				for i := range calls - 2 {
					p := g.acquire()
					wg.Go(func() { p.Done(outcome("FFFFFFFFSSSSSS"[i])) })
				}
				wg.Wait()
				if got := g.snapshot(); got.State != breaker.Open || got.Calls != calls || got.Failures != calls/2 {
					t.Fatalf("%v after %d failures of %d", got.State, got.Failures, got.Calls)
				}
			}
		})
	}
}
