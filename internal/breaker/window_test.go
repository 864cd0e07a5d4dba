package breaker

import (
	"math"
	"testing"
	"time"
)

// R28: a bucket that is full stays full, and no count ever goes below zero.
func TestBucketsAreSaturating(t *testing.T) {
	t.Parallel()
	w := newTimeWindow(10*time.Second, 10)
	w.add(true, false)
	w.succeed(math.MaxUint64)
	w.add(true, false)
	if got, want := w.counts(0), (samples{math.MaxUint32, 1, 0}); got != want {
		t.Errorf("a full bucket: got %+v, want %+v", got, want)
	}
	w.slide(time.Second)
	w.add(true, false)
	if got, want := w.counts(time.Second), (samples{math.MaxUint32 + 1, 2, 0}); got != want {
		t.Errorf("and one more: got %+v, want %+v", got, want)
	}
	w.slide(10 * time.Second)
	if got, want := w.counts(10*time.Second), (samples{1, 1, 0}); got != want {
		t.Errorf("after the full one has left: got %+v, want %+v", got, want)
	}
}

// R25: the largest counts that a window can hold are compared without overflow.
func TestLargestCountsAreCompared(t *testing.T) {
	t.Parallel()
	s := testSettings()
	s.FailureRate = All - 1
	const most = maxBuckets * math.MaxUint32
	if s.exceeded(samples{most, most / 2, 0}) != nil || s.exceeded(samples{most, most, 0}) == nil {
		t.Error("the rate of a full window is wrong")
	}
}

// R42: the end of time is one more point in time.
func TestWindowAtTheEndOfTime(t *testing.T) {
	t.Parallel()
	w := newTimeWindow(10*time.Second, 3)
	w.add(true, false)
	w.slide(forever)
	w.succeed(1)
	if got, want := w.counts(forever), (samples{1, 0, 0}); got != want || w.steady() != forever {
		t.Errorf("got %+v until %v, want %+v", got, w.steady(), want)
	}
}

// R39: a circuit is let go once its window is empty, or when nobody has added
// to a window of calls for the whole idle time.
func TestIdleWindow(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		window   Window
		idle     time.Duration
		wantGone bool
	}{
		"time: still in the window": {Window{Span: time.Hour, Buckets: 10}, 30 * time.Minute, false},
		"time: out of the window":   {Window{Span: time.Hour, Buckets: 10}, time.Hour, true},
		"time: idle time not over":  {Window{Span: time.Minute, Buckets: 10}, DefaultIdleTTL - 1, false},
		"time: idle time over":      {Window{Span: time.Minute, Buckets: 10}, DefaultIdleTTL, true},
		"calls: idle time not over": {Window{Calls: 20}, DefaultIdleTTL - 1, false},
		"calls: idle time over":     {Window{Calls: 20}, DefaultIdleTTL, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var now time.Duration
			s := testSettings()
			s.FailureThreshold, s.Window = 3, tt.window
			r := New(Config{Settings: func(string) Settings { return s }, Now: func() time.Duration { return now }})
			for _, k := range []Kind{Failure, Success, Success} {
				var p Permit
				if err := r.Acquire("k", &p); err != nil {
					t.Fatal(err)
				}
				p.Done(Outcome{Kind: k})
			}
			r.evictIdle() // sees that calls have ended since it looked last
			now = tt.idle
			r.evictIdle()
			if _, kept := r.Circuit("k"); kept == tt.wantGone {
				t.Errorf("after %v: kept %v", tt.idle, kept)
			}
		})
	}
}

// A success that comes when its tab was closed already is not counted on it: it
// has to take the lock.
func TestSuccessAfterTheTabWasClosed(t *testing.T) {
	t.Parallel()
	s := testSettings()
	r := New(Config{Settings: func(string) Settings { return s }, Now: func() time.Duration { return 0 }})
	var p Permit
	if err := r.Acquire("k", &p); err != nil {
		t.Fatal(err)
	}
	p.Done(Outcome{Kind: Success}) // opens a tab

	c := r.circuit("k")
	if !c.onTab(c.look(), &Outcome{Kind: Success}) {
		t.Fatal("there is no open tab")
	}
	if got, want := c.tab.Load().close(), uint64(1); got != want {
		t.Errorf("the tab holds %d successes, want %d", got, want)
	}
	if c.onTab(c.look(), &Outcome{Kind: Success}) {
		t.Error("a closed tab counted a success")
	}
}

// Successes may pass without a look only where they cannot open a circuit by
// making the share of earlier slow calls known.
func TestSuccessesAreLookedAtWhileSlowCallsWait(t *testing.T) {
	t.Parallel()
	s := Settings{SlowRate: All / 2, MinCalls: 3, Window: Window{Span: time.Second, Buckets: 1}}
	if s.safe(samples{calls: 2, slow: 2}) || !s.safe(samples{calls: 3, slow: 1}) || !s.safe(samples{calls: 2}) {
		t.Error("successes are taken for harmless, or looked at in vain")
	}
}

// A late failure is put to its sample only while that is in the window, not to
// what has taken its place.
func TestAFailureOfASampleThatIsGoneIsNotPutToAnother(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]window{"of time": newTimeWindow(3*time.Second, 3), "of calls": newCountWindow(3)} {
		mark := w.add(false, true)
		w.slide(2 * time.Second)
		w.succeed(2)
		if !w.blame(mark, 0) || w.counts(2*time.Second) != (samples{3, 1, 1}) {
			t.Errorf("%s: a sample in the window shows %+v, want it failed", name, w.counts(2*time.Second))
		}
		w.slide(3 * time.Second)
		w.succeed(1)
		if w.blame(mark, 0) || w.counts(3*time.Second) != (samples{3, 0, 0}) {
			t.Errorf("%s: after its sample the window shows %+v, want three good calls", name, w.counts(3*time.Second))
		}
	}
}
