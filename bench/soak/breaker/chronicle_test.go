package main

import (
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// openAndBack are four events of one circuit, all as they should be.
func openAndBack() []breaker.Event {
	at := time.Now().UTC()
	return []breaker.Event{
		{Seq: 1, Key: nameOf(0), From: breaker.Closed, To: breaker.Open, Reason: breaker.ReasonConsecutive, OpenFor: time.Second, Generation: 2, Actor: breaker.ActorBreaker, At: at},
		{Seq: 2, Key: nameOf(0), From: breaker.Open, To: breaker.HalfOpen, Reason: breaker.ReasonHalfOpen, Generation: 3, Actor: breaker.ActorBreaker, At: at},
		{Seq: 3, Key: nameOf(0), From: breaker.HalfOpen, To: breaker.Closed, Reason: breaker.ReasonProbeSuccess, Generation: 4, Actor: breaker.ActorBreaker, At: at},
		{Seq: 4, Key: nameOf(0), From: breaker.Closed, To: breaker.ForcedOpen, Reason: breaker.ReasonOperator, Generation: 5, Actor: person, Note: note, At: at},
	}
}

func TestEventsAreHeldToTheirOrder(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		spoil func([]breaker.Event) []breaker.Event
		want  int
	}{
		{"as they should be", func(e []breaker.Event) []breaker.Event { return e }, 0},
		{"one is missing, and was not dropped", func(e []breaker.Event) []breaker.Event { e[2].Seq--; e[3].Seq--; return append(e[:1], e[2:]...) }, 1},
		{"one was dropped", func(e []breaker.Event) []breaker.Event { return append(e[:1], e[2:]...) }, 0},
		{"two have changed places", func(e []breaker.Event) []breaker.Event { e[1], e[2] = e[2], e[1]; return e }, 1},
		{"a generation comes again", func(e []breaker.Event) []breaker.Event { e[3].Generation = 2; return e }, 1},
		{"a move without a rule", func(e []breaker.Event) []breaker.Event {
			e[0].To, e[1].From = breaker.Disabled, breaker.Disabled
			return e
		}, 2},
		{"an opening without a time", func(e []breaker.Event) []breaker.Event { e[0].OpenFor = 0; return e }, 1},
		{"a person without a name", func(e []breaker.Event) []breaker.Event { e[3].Actor = ""; return e }, 1},
		{"more failures than calls", func(e []breaker.Event) []breaker.Event { e[0].Counts.Failures = 1; return e }, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBreaches()
			c := newChronicle(b, 100)
			for _, e := range row.spoil(openAndBack()) {
				c.add(e)
			}
			if got, first := b.of(ordered); got != row.want {
				t.Errorf("broken %d times, want %d; the first: %s", got, row.want, first)
			}
		})
	}
}

func TestOnlyAColdCircuitMayBeginAnew(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		index int
		moves int // before it was let go, beside a reset
		want  int
	}{
		{"cold", 99, 3, 0},
		{"cold after one move", 99, 0, 0},
		{"hot", 0, 3, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBreaches()
			c := newChronicle(b, 100)
			reset := openAndBack()[3]
			reset.To, reset.Generation = breaker.Closed, 2+uint64(row.moves)
			before := append(openAndBack()[:row.moves], reset)
			for i, e := range append(before, openAndBack()[0]) {
				e.Seq, e.Key = uint64(i+1), nameOf(row.index)
				c.add(e)
			}
			if got, first := b.of(ordered); got != row.want {
				t.Errorf("broken %d times, want %d; the first: %s", got, row.want, first)
			}
		})
	}
}
