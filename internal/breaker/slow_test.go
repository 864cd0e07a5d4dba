package breaker_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// slowly is a circuit that opens when more than so many of its last calls were
// slow, and by nothing else.
func slowly(rate breaker.Rate, of, least int) func(*breaker.Settings) {
	return func(s *breaker.Settings) {
		s.FailureThreshold, s.FailureRate = 0, 0
		s.SlowRate, s.SlowCancels, s.MinCalls, s.Window = rate, true, least, breaker.Window{Calls: of}
	}
}

// TestSlowCalls holds the circuit to what established breakers pin in their own
// tests for slow calls, and to the rules of its specification.
func TestSlowCalls(t *testing.T) {
	t.Parallel()
	on := newStores(t)
	const half = breaker.All / 2
	tests := []struct {
		name   string
		after  time.Duration
		change func(*breaker.Settings)
		script string
	}{
		{"C04 three of five slow", 4 * time.Second, slowly(half, 20, 5), "F~5s S~5s F~100ms S~100ms w=2 slow=? S~5s open by=slow_rate w=3 slow=0.6"},
		{"C36 a slow rate of 40 %", 4 * time.Second, slowly(half, 20, 5), "S~10s F~10s S~100ms S~100ms S~100ms closed n=5 f=1 w=2 slow=0.4 rate=0.2"},
		{"C116 below min_calls nothing trips", time.Second, slowly(half, 20, 10), "S~2s S~2s S~2s S~2s S~2s S~2s S~2s S~2s S~2s closed w=9 slow=?"},
		{"R20 at the threshold is not slow", 4 * time.Second, slowly(half, 20, 1), "S~4s closed w=0 S~4001ms closed slow=0.5 S~4001ms open"},
		{"R20 a stream is timed to its first token", 4 * time.Second, slowly(half, 20, 1), "a1 +4s t1 +1h S1 closed n=1 w=0"},
		{"R20 the first token is late", 4 * time.Second, slowly(half, 20, 1), "a1 +4001ms t1 w=0 S1 open w=1"},
		{"all means that every call was slow", time.Second, slowly(breaker.All, 20, 3), "S~2s S~2s S closed S~2s closed"},
		{"all were", time.Second, slowly(breaker.All, 20, 3), "S~2s S~2s closed S~2s open"},
		{"R16 a call that was given up when it was slow", 4 * time.Second, slowly(half, 20, 2), "L~3s n=0 L~5s closed n=1 w=1 f=0 L~5s open by=slow_rate"},
		{"R16 switched off", 4 * time.Second, func(s *breaker.Settings) {
			slowly(half, 20, 1)(s)
			s.SlowCancels = false
		}, "L~4500ms closed n=0"},
		{"R16 a bad request is none", 4 * time.Second, slowly(half, 20, 1), "E~4500ms closed n=0 e=1"},
		{"R16 given up after a first token in time", 4 * time.Second, slowly(half, 20, 1), "a1 t1 +1m L1 closed n=0"},
		{"R21 slow and failed counts once each", time.Second, slowly(breaker.All, 20, 9), "F~2s n=1 f=1 w=1"},
		{"R24 a success that is not slow makes the rate known", time.Second, slowly(half, 20, 3), "S~2s S~2s closed S open by=slow_rate"},
		{"R34 a slow probe failed", time.Second, slowly(half, 1, 1), "S~2s open +30s S~2s open by=probe_failure +60s S~1s closed"},
		{"R34 its first token was late", time.Second, slowly(half, 1, 1), "S~2s +30s a1 +2s t1 half_open S1 open by=probe_failure"},
		{"R34 its first token came in time", time.Second, slowly(half, 1, 1), "S~2s +30s a1 +1s t1 closed +1m S1 closed n=1 w=0"},
		{"R34 a slow probe that was given up", time.Second, slowly(half, 1, 1), "S~2s +30s L~500ms half_open L~2s open by=probe_failure"},
		{"R22 calls that run count when their bucket has passed", 4 * time.Second, slowly(half, 20, 2), "a1 a2 +4s sweep n=0 +1s sweep open by=slow_rate w=2 S1 S2 stale=2"},
		{"R22 they are not counted again", 4 * time.Second, slowly(breaker.All, 20, 9), "a1 a2 a3 +5s sweep n=3 w=3 f=0 S1 F2 L3 n=3 w=3 f=1 c=1"},
		{"R22 the next call sees them, too", 4 * time.Second, slowly(half, 20, 2), "a1 a2 +5s a3 open w=2 x"},
		{"R22 an answer that waits for its end waits no more", 4 * time.Second, slowly(half, 20, 1), "a1 +1s t1 +1h sweep n=0 S1 n=1 w=0"},
		{"R22 a failure whose sample is gone counts by itself", 4 * time.Second, slowly(breaker.All, 2, 2), "a1 +5s sweep n=1 S S w=0 F1 n=2 f=1 w=0"},
		{"off: nobody is slow", time.Second, nil, "S~1h S~1h n=1 w=0 slow=?"},
		{"a call that says nothing is not slow", 0, slowly(half, 20, 1), "S~1h n=1 w=0 slow=0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, on, with(tt.change), func(g *rig) {
				g.slow = tt.after
				g.play(tt.script)
			})
		})
	}
}

// R21: when one outcome passes both limits there is one transition, for the
// failures, and its event names both.
func TestBothLimitsPassedAtOnce_R21(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var events []breaker.Event
		r := breaker.New(breaker.Config{
			Settings: always(with(func(s *breaker.Settings) {
				s.FailureThreshold, s.SlowRate, s.MinCalls = 0, breaker.All/2, 2
			})),
			OnEvent: func(e breaker.Event) { events = append(events, e) },
		})
		r.Start()
		for range 2 {
			var p breaker.Permit
			if err := r.Acquire(key, &p); err != nil {
				t.Fatal(err)
			}
			p.SlowAfter(time.Second)
			<-time.After(2 * time.Second)
			p.Done(breaker.Outcome{Kind: breaker.Failure, Cause: "timeout"})
			if !p.Slow() {
				t.Error("the permit does not know that its call was slow")
			}
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(events) != 1 {
			t.Fatalf("got the events %+v, want one", events)
		}
		got := events[0]
		if diff := cmp.Diff([]string{"failure_rate", "slow_rate"}, got.Exceeded); diff != "" || got.Reason != "failure_rate" {
			t.Errorf("opened for %s, exceeded (-want +got):\n%s", got.Reason, diff)
		}
		if want := (breaker.Counts{Calls: 2, Failures: 2, Slow: 2, ConsecutiveFailures: 2}); got.Counts != want {
			t.Errorf("counts %+v, want %+v", got.Counts, want)
		}
	})
}

// X13: a hundred calls that hang open the circuit at their slow threshold and
// one bucket, without any other call and without a timer for each.
func TestHangingCallsOpenWithoutTraffic_X13(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opened := make(chan breaker.Event, 1)
		s := with(func(s *breaker.Settings) { s.SlowRate = breaker.All / 2 })
		r := breaker.New(breaker.Config{Settings: always(s), OnEvent: func(e breaker.Event) { opened <- e }})
		r.Start()
		<-time.After(70 * time.Second) // the sweeper sleeps for long by now
		began := time.Now()
		permits := make([]breaker.Permit, 100)
		for i := range permits {
			if err := r.Acquire(key, &permits[i]); err != nil {
				t.Fatal(err)
			}
			permits[i].SlowAfter(10 * time.Second)
		}
		e := <-opened
		if took := time.Since(began); took <= 10*time.Second || took > 13*time.Second {
			t.Errorf("opened after %v, want more than 10 s and at most a bucket of 3 s later", took)
		}
		if e.Reason != breaker.ReasonSlowRate || e.Cause != "" || e.Counts.Slow != 100 || e.Counts.Calls != 100 {
			t.Errorf("opened by %+v", e)
		}
		for i := range permits {
			if got := permits[i].Done(breaker.Outcome{Kind: breaker.Failure}); got != breaker.Stale {
				t.Errorf("a hanging call ended as %v, want stale", got)
			}
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// Settings that change while calls run: nothing counts twice or is waited for
// for ever.
func TestSlowCallsWhileTheSettingsChange_R45(t *testing.T) {
	t.Parallel()
	const half = breaker.All / 2
	on, wider, off := with(slowly(breaker.All, 20, 9)), with(slowly(breaker.All, 30, 9)), with(slowly(half, 20, 9))
	off.SlowRate, off.FailureThreshold = 0, 5
	for name, tt := range map[string]struct {
		next   breaker.Settings
		script string
	}{
		"another window forgets what was counted, and counts failures": {wider, "F1 n=1 f=1 w=1"},
		"another window counts what is slow later":                     {wider, "+3s sweep n=1 w=1 S2 n=1 w=1"},
		"slow calls no longer count":                                   {off, "w=1 F1 f=1 c=1 +3s sweep n=1 S2 n=2"},
		"the same again changes nothing":                               {on, "n=1 w=1 F1 n=1 f=1 w=1 +3s sweep n=2 w=2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, on)
			g.slow = 4 * time.Second
			g.play("a1 +3s a2 +2s sweep n=1 w=1")
			g.Reconfigure(always(tt.next))
			g.play(tt.script)
		})
	}
}

// Many calls at once, some of which hang: every one is counted exactly once,
// whoever counts it.
func TestSlowCallsAreCountedOnceUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const callers, calls = 16, 40
		s := with(slowly(breaker.All, 100_000, 100_000))
		r := breaker.New(breaker.Config{Settings: always(s)})
		r.Start()
		var running sync.WaitGroup
		for i := range callers {
			running.Go(func() {
				for n := range calls {
					var p breaker.Permit
					if err := r.Acquire(key, &p); err != nil {
						t.Error(err)
						return
					}
					p.SlowAfter(10 * time.Second)
					<-time.After(time.Duration((i*calls+n)%25) * time.Second)
					if n%3 == 0 {
						p.FirstToken()
						<-time.After(time.Minute)
					}
					p.Done(breaker.Outcome{Kind: []breaker.Kind{breaker.Success, breaker.Failure}[n%2]})
				}
			})
		}
		running.Wait()
		slow := uint64(0)
		for i := range callers * calls {
			if i%25 > 10 {
				slow++
			}
		}
		if got, _ := r.Circuit(key); got.Calls != callers*calls || got.Failures != callers*calls/2 || got.Slow != slow {
			t.Errorf("got %d calls, %d failed, %d slow, want %d, %d, %d", got.Calls, got.Failures, got.Slow, callers*calls, callers*calls/2, slow)
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
