package breaker

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// recountWindow goes through a list of outcomes, oldest first, and counts those
// that a window shows.
func recountWindow(w Window, past []ending, now time.Duration) samples {
	past = slices.DeleteFunc(slices.Clone(past), func(e ending) bool { return e.news })
	var n samples
	for i, e := range past {
		if !visible(w, len(past)-i, e.at, now) {
			continue
		}
		n.calls++
		if e.kind == Failure || e.failed {
			n.failures++
		}
		if e.slow {
			n.slow++
		}
	}
	return n
}

// bucketWidth is in whole microseconds, rounded up.
func bucketWidth(w Window) time.Duration {
	us := math.Ceil(float64(w.Span) / float64(w.Buckets) / float64(time.Microsecond))
	return time.Duration(us) * time.Microsecond
}

// visible reports whether a window shows the outcome that is the n-th from the
// end of its list and happened at a time.
func visible(w Window, n int, at, now time.Duration) bool {
	if w.Calls > 0 {
		return n <= w.Calls
	}
	width := bucketWidth(w)
	return now/width-at/width < time.Duration(w.Buckets)
}

func leastCalls(s Settings) int {
	if s.Window.Calls > 0 && s.Window.Calls < s.MinCalls {
		return s.Window.Calls
	}
	return s.MinCalls
}

// overLimit judges a rate as a fraction.
func overLimit(s Settings, n samples) bool {
	if n.calls < uint64(leastCalls(s)) {
		return false
	}
	switch new(big.Rat).SetFrac64(int64(n.failures), int64(n.calls)).Cmp(big.NewRat(int64(s.FailureRate), 1_000_000)) {
	case 1:
		return true
	case 0:
		return s.RateTest == AtLeast || s.FailureRate == 1_000_000
	default:
		return false
	}
}

func rateText(rate *float64) string {
	if rate == nil {
		return "unknown"
	}
	return fmt.Sprint(*rate)
}

// TestWindowAgainstAList records outcomes at times that also go backwards, as
// a clock may that is not the real one, and compares what the circuit shows and
// when it opens with a list of (time, outcome) that is counted anew each time.
func TestWindowAgainstAList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWindowWalk(t)
		t.Repeat(map[string]func(*rapid.T){
			"":        w.compare,
			"succeed": func(t *rapid.T) { w.end(t, Success) },
			"fail":    func(t *rapid.T) { w.end(t, Failure) },
			"neutral": func(t *rapid.T) { w.end(t, Neutral) },
			"many":    w.many,
			"advance": w.advance,
			"sleep":   func(t *rapid.T) { w.now += time.Duration(rapid.IntRange(1, 1000).Draw(t, "hours")) * time.Hour },
			"back": func(t *rapid.T) {
				w.now -= min(w.now, time.Duration(rapid.IntRange(0, 100_000).Draw(t, "ms"))*time.Millisecond)
			},
			"settings": w.reconfigure,
		})
	})
}

// windowWalk is a circuit that opens by its rate alone, and the list.
type windowWalk struct {
	registry *Registry
	s        Settings
	now      time.Duration
	latest   time.Duration // at which an outcome was recorded
	past     []ending
}

func newWindowWalk(t *rapid.T) *windowWalk {
	w := &windowWalk{s: testSettings()}
	w.s.FailureThreshold = 0
	drawRate(t, &w.s)
	w.begin()
	return w
}

func (w *windowWalk) begin() {
	s := w.s
	w.registry = New(Config{Settings: func(string) Settings { return s }, Now: func() time.Duration { return w.now }})
	w.latest, w.past = 0, nil
}

// end is a call that begins and ends now. It looks at the circuit without
// touching it, so that successes in a row go the way without the lock. A
// circuit that has opened is begun anew.
func (w *windowWalk) end(t *rapid.T, k Kind) {
	var p Permit
	if err := w.registry.Acquire(walkKey, &p); err != nil {
		t.Fatal(err)
	}
	p.Done(Outcome{Kind: k})
	opened := p.circuit.look().state() == Open
	if k != Neutral {
		w.latest = max(w.latest, w.now)
		w.past = append(w.past, ending{at: w.latest, kind: k})
	}
	n := recountWindow(w.s.Window, w.past, w.latest)
	if want := k != Neutral && overLimit(w.s, n); opened != want {
		t.Fatalf("after %d failures of %d: opened %v, want %v", n.failures, n.calls, opened, want)
	}
	if opened {
		w.checkOpening(t, n)
		w.begin()
	}
}

func (w *windowWalk) checkOpening(t *rapid.T, want samples) {
	s, _ := w.registry.Circuit(walkKey)
	if got := (samples{s.Calls, s.Failures, s.Slow}); got != want || s.Reason != ReasonFailureRate {
		t.Fatalf("opened by %+v (%s), want %+v", got, s.Reason, want)
	}
}

// many are calls in a row, most of them successes, as time goes on.
func (w *windowWalk) many(t *rapid.T) {
	every := rapid.IntRange(2, 100).Draw(t, "a failure in")
	for i := range rapid.IntRange(1, 200).Draw(t, "calls") {
		k := Success
		if i%every == every-1 {
			k = Failure
		}
		w.end(t, k)
		w.now += w.s.Window.Span / 128
	}
}

func (w *windowWalk) advance(t *rapid.T) {
	w.now += time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond
}

// reconfigure changes the limit, which is looked at with the next outcome, and
// sometimes the shape of the window, which begins it anew.
func (w *windowWalk) reconfigure(t *rapid.T) {
	was := w.s.Window
	drawRate(t, &w.s)
	if rapid.Bool().Draw(t, "same window") {
		w.s.Window = was
	}
	if w.s.Window != was {
		w.latest, w.past = 0, nil
	}
	s := w.s
	w.registry.Reconfigure(func(string) Settings { return s })
}

func (w *windowWalk) compare(t *rapid.T) {
	s, ok := w.registry.Circuit(walkKey)
	if !ok {
		return
	}
	want := recountWindow(w.s.Window, w.past, max(w.now, w.latest))
	if got := (samples{s.Calls, s.Failures, s.Slow}); got != want {
		t.Fatalf("at %v the circuit shows %+v, the list %+v", w.now, got, want)
	}
}
