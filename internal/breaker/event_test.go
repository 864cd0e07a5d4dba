package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// R43, C97, CF-B4: each transition is told once, in order, with the counters of
// the state that was left.
func TestEventsOfAWholeLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []breaker.Event
		g := &rig{t: t, permits: map[string]*breaker.Permit{}}
		g.Registry = breaker.New(breaker.Config{
			Settings: always(with(func(s *breaker.Settings) { halfOpen(3, 2)(s); s.FailureThreshold = 2 })),
			OnEvent:  func(e breaker.Event) { got = append(got, e) },
			Jitter:   func() float64 { return 0 },
		})
		g.Start()
		start := time.Now().UTC()
		g.play("S E F F x")
		time.Sleep(30 * time.Second)
		g.play("F F")
		time.Sleep(time.Minute)
		g.play("F S S F(5s)")
		if err := g.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}

		at := func(d time.Duration) time.Time { return start.Add(d) }
		counts := func(calls, failures uint64, consecutive int) breaker.Counts {
			return breaker.Counts{Calls: calls, Failures: failures, ConsecutiveFailures: consecutive}
		}
		const closed, open, half = breaker.Closed, breaker.Open, breaker.HalfOpen
		want := []breaker.Event{
			{From: closed, To: open, Reason: "consecutive", Cause: "server_error", Counts: counts(3, 2, 2), OpenFor: 30 * time.Second, At: at(0)},
			{From: open, To: half, Reason: "half_open", Cause: "server_error", At: at(30 * time.Second)},
			{From: half, To: open, Reason: "probe_failure", Cause: "server_error", Counts: counts(2, 2, 0), OpenFor: time.Minute, At: at(30 * time.Second)},
			{From: open, To: half, Reason: "half_open", Cause: "server_error", At: at(90 * time.Second)},
			{From: half, To: closed, Reason: "probe_success", Counts: counts(3, 1, 0), At: at(90 * time.Second)},
			{From: closed, To: open, Reason: "retry_after", Cause: "server_error", Counts: counts(1, 1, 1), OpenFor: 5 * time.Second, At: at(90 * time.Second)},
		}
		for i := range want {
			want[i].Seq, want[i].Generation = uint64(i+1), uint64(i+2)
			want[i].Key, want[i].Actor = key, breaker.ActorBreaker
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateApproxTime(0)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// X11: a hook may call back into the breaker; events stay in order although
// many goroutines make them.
func TestHookMayCallBack(t *testing.T) {
	t.Parallel()
	var r *breaker.Registry
	var seqs []uint64
	perKey := map[string]uint64{}
	hook := func(e breaker.Event) {
		var p breaker.Permit
		_ = r.Acquire(e.Key, &p)
		p.Done(breaker.Outcome{Kind: breaker.Neutral})
		r.Circuit(e.Key)
		r.Circuits()
		r.Reconfigure(always(with(func(s *breaker.Settings) { s.FailureThreshold, s.Cooldown = 1, time.Nanosecond })))
		seqs = append(seqs, e.Seq)
		if e.Generation != perKey[e.Key]+1 && perKey[e.Key] != 0 {
			t.Errorf("%s: generation %d is told after %d", e.Key, e.Generation, perKey[e.Key])
		}
		perKey[e.Key] = e.Generation
	}
	r = breaker.New(breaker.Config{
		Settings: always(with(func(s *breaker.Settings) { s.FailureThreshold, s.Cooldown = 1, time.Nanosecond })),
		OnEvent:  hook,
	})
	r.Start()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 50 {
				_ = r.Do(fmt.Sprint("k", (i+n)%3), func(*breaker.Permit) breaker.Outcome { return outcome("FS"[n%2]) })
			}
		})
	}
	wg.Wait()
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(seqs) == 0 || r.EventsDropped() != 0 {
		t.Fatalf("%d events told, %d dropped", len(seqs), r.EventsDropped())
	}
	for i, seq := range seqs {
		if seq != uint64(i+1) {
			t.Fatalf("event %d is told as number %d", seq, i+1)
		}
	}
}

// R43: a slow hook loses events, counted; it never holds a call up, and the
// counters lose nothing.
func TestSlowHookDropsEventsOnly(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	entered := make(chan struct{})
	var once sync.Once
	var told uint64
	r := breaker.New(breaker.Config{
		Settings: always(with(threshold(1))),
		OnEvent: func(e breaker.Event) {
			once.Do(func() { close(entered); <-release })
			told++
			if e.Seq != told { // those that wait are the oldest
				t.Errorf("event %d is told as number %d", e.Seq, told)
			}
		},
	})
	r.Start()
	const keys = 10_000
	for i := range keys {
		_ = r.Do(fmt.Sprint(i), func(*breaker.Permit) breaker.Outcome { return outcome('F') })
		if i == 0 {
			<-entered
		}
	}
	dropped := r.EventsDropped()
	close(release)
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if dropped == 0 || told+dropped != keys {
		t.Errorf("%d told and %d dropped of %d", told, dropped, keys)
	}
	for _, s := range r.Circuits() {
		if s.State != breaker.Open || s.Failures != 1 {
			t.Fatalf("%s: %v with %d failures, want open with 1", s.Key, s.State, s.Failures)
		}
	}
}

// C112: many calls that fail at once are one opening.
func TestManyFailuresAreOneOpening(t *testing.T) {
	t.Parallel()
	opened := 0
	g := setup(t, with(threshold(3)))
	g.Registry = breaker.New(breaker.Config{
		Settings: always(with(threshold(3))),
		OnEvent:  func(breaker.Event) { opened++ },
	})
	g.Start()
	permits := make([]breaker.Permit, 100)
	for i := range permits {
		if err := g.Acquire(key, &permits[i]); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for i := range permits {
		wg.Go(func() { permits[i].Done(outcome('F')) })
	}
	wg.Wait()
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if opened != 1 {
		t.Errorf("%d openings, want 1", opened)
	}
	g.play("open n=3 f=3 c=3 stale=97")
}

// Stop gives up when its context does, delivers what waits, and may be called
// again; Start may too.
func TestStopIsBoundedAndRepeatable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		told := 0
		g := &rig{t: t}
		g.Registry = breaker.New(breaker.Config{
			Settings: always(with(threshold(1))),
			OnEvent:  func(breaker.Event) { told++; <-release },
		})
		g.Start()
		g.Start()
		g.play("F")
		time.Sleep(30 * time.Second)
		g.play("S")
		synctest.Wait()
		if told != 1 {
			t.Errorf("%d events are being told at once, want 1", told)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the hook hangs: got %v, want deadline exceeded", err)
		}
		close(release)
		for range 2 {
			if err := g.Stop(t.Context()); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		}
		if told != 3 {
			t.Errorf("%d events were told, want 3", told)
		}
		g.Start() // does nothing any more
	})
}

// Stop loses no event, however soon after it was made.
func TestStopDeliversWhatWaits(t *testing.T) {
	t.Parallel()
	for range 100 {
		told := 0
		g := &rig{t: t}
		g.Registry = breaker.New(breaker.Config{Settings: always(with(threshold(1))), OnEvent: func(breaker.Event) { told++ }})
		g.Start()
		g.play("F")
		if err := g.Stop(t.Context()); err != nil || told != 1 {
			t.Fatalf("%d events told, want 1; stop: %v", told, err)
		}
	}
}

// A registry that never ran has nothing to stop.
func TestStopWithoutStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := breaker.New(breaker.Config{Settings: always(defaults())}).Stop(ctx); err != nil {
		t.Error(err)
	}
}
