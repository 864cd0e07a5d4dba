package breaker_test

import (
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// TestConformance holds the circuit to what established breakers pin in their
// own tests where a streak opens it; the ids are those of the breaker's
// specification.
func TestConformance(t *testing.T) {
	t.Parallel()
	on := newStores(t)
	tests := []struct {
		name   string
		change func(*breaker.Settings)
		script string
	}{
		// Closed.
		{"C01 a new circuit is closed and empty", nil, "S closed n=1 f=0 c=0 r=0 lost=0 stale=0"},
		{"C37 an error that is not counted is neutral", threshold(1), "E closed n=0"},
		{"C38 a neutral call leaves the counters", nil, "F E closed n=1 f=1 c=1"},
		{"C41 a cancelled call counts nowhere", nil, "a1 E1 n=0 f=0 e=1"},
		{"C51 six in a row, interrupted once", threshold(6), "F F F F F closed S F closed c=1 F F F F closed F open"},
		{"C57 a neutral call does not interrupt a streak", threshold(2), "S F E S F E S F E S F E S F E closed n=10 f=5 e=5 c=1"},
		{"C73 all kinds together", nil, "E E E S S S F F n=5 e=3 f=2 c=2"},
		{"C80 a threshold of one", threshold(1), "F open +30s S closed F open +30s F open"},
		{"C81 three in a row", threshold(3), "F S F F closed F open"},
		{"C83 alternating calls are no streak", threshold(2), "S F S F S F S F S F S F S F S F S F S F S F closed"},
		{"C102 the edge of five", threshold(5), "F F F F closed F open"},

		// Open.
		{"C06 refused until its time, then half-open and empty", func(s *breaker.Settings) { s.FailureThreshold, s.Cooldown = 1, 5*time.Second },
			"F x +3s x r=2 +3s a1 half_open n=0 f=0 c=0"},
		{"C07 open for two hours", func(s *breaker.Settings) { s.MaxRetryAfter = 3 * time.Hour }, "F(2h) +1h x +1h1s a1 half_open"},
		{"C29 nothing moves without traffic", threshold(1), "F +10h eligible"},
		{"C43 a ban opens at the first call, another failure does not", func(s *breaker.Settings) { s.MaxRetryAfter = 2 * time.Hour },
			"F closed F(2h) open +1h59m59s x +1s S closed"},
		{"C52 refused calls are not counted", threshold(1), "F n=1 x x x n=1 f=1 r=3"},
		{"C92 an open time given by the outcome", nil, "F(100ms) x +110ms a1 half_open"},
		{"C118 after revival one call until it ends, then all", threshold(1), "F +30s a1 x x S1 a2 a3 a4"},

		// Half-open.
		{"C10 as soon as the rest cannot make it (F F)", halfOpen(4, 3), "F +30s F half_open F open"},
		{"C10 as soon as the rest cannot make it (S F F)", halfOpen(4, 3), "F +30s S F half_open F open"},
		{"C12 one failure of four is allowed", halfOpen(4, 3), "F +30s F S S half_open S closed n=0 S n=1"},
		{"C13 four slots and no more, in every episode", halfOpen(4, 4), "F +30s a1 a2 a3 a4 x x F1 open +60s a1 a2 a3 a4 x"},
		{"C27 half-open without a probe under way does not last", threshold(1), "F +30s E half_open +2m x open"},
		{"C54 one probe fails", threshold(1), "F +30s F open c=0 +59s x +1s S closed n=0 f=0"},
		{"C54 one probe succeeds", threshold(1), "F +30s S closed n=0 f=0 c=0"},
		{"C58 neutral probes use nothing up", halfOpen(3, 3), "F +30s E E E E half_open F open"},
		{"C60 two in flight, no third until they give back", halfOpen(2, 2), "F +30s a1 a2 x x E1 E2 a3"},
		{"C61 a failure after a success re-opens", halfOpen(2, 2), "F +30s a1 a2 S1 F2 open"},
		{"C61 two successes close", halfOpen(2, 2), "F +30s a1 a2 S1 half_open S2 closed"},
		{"C84 two of three failing", halfOpen(3, 2), "F +30s F S half_open F open"},
		{"C84 two of three succeeding", halfOpen(3, 2), "F +30s F S half_open S closed"},
		{"C85 three of three: the third fails", halfOpen(3, 3), "F +30s S S half_open F open"},
		{"C85 three of three", halfOpen(3, 3), "F +30s S S half_open S closed"},
		{"C85 three of three: the first fails", halfOpen(3, 3), "F +30s F open"},
		{"C88 success ratio of two thirds", halfOpen(3, 2), "F +30s S F half_open S closed"},
		{"C114 the tenth probe closes", halfOpen(10, 10), "F +30s S S S S S S S S S half_open S closed"},
		{"R10 slots that were used up do not come back", halfOpen(3, 2), "F +30s a1 F1 a2 a3 x S2 half_open x"},
		{"R35 ten neutral probes in a row end the episode", threshold(1), "F +30s E E E E E E E E E half_open E open +30s S closed"},
		{"R35 a verdict breaks the row", halfOpen(3, 3), "F +30s E E E E E E E E E S E E E E E E E E E half_open E open"},
		{"R35 so does a failure that is allowed", halfOpen(3, 2), "F +30s E E E E E E E E E F E E E E E E E E E half_open E open"},
		{"T4 a hint while half-open opens for exactly that long", threshold(1), "F +30s F(7s) open +6s x +1s S closed"},
		{"T4 a hint does not grow the cooldown", threshold(1), "F +30s F(7s) +7s F open +59s x +1s a1"},

		// Generations.
		{"T8 late failures extend nothing", threshold(1), "a1 a2 F1 open +29s F2 +1s a3 half_open stale=1"},
		{"R9 a late failure does not re-open", threshold(1), "a1 F +30s a2 half_open F1 half_open S2 closed stale=1"},
		{"R9 a late success does not close", threshold(1), "a1 F +30s a2 half_open S1 half_open stale=1"},
		{"R8 a late neutral gives no slot back", threshold(1), "a1 F +30s a2 E1 x stale=1"},
		{"R8 an old probe moves no new episode", halfOpen(2, 2), "F +30s a1 a2 F1 open +60s a3 S2 half_open S3 half_open stale=1"},
		{"R7 the second Done counts nothing", threshold(2), "a1 F1 F1 F1 closed f=1 double=2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := with(func(s *breaker.Settings) { s.FailureRate = 0 })
			if tt.change != nil {
				tt.change(&s)
			}
			everywhere(t, on, s, func(g *rig) { g.play(tt.script) })
		})
	}
}

// TestReference holds the circuit to the product it succeeds: threshold 3,
// cooldown 30 s.
func TestReference(t *testing.T) {
	t.Parallel()
	on := newStores(t)
	tests := []struct {
		name   string
		change func(*breaker.Settings)
		script string
	}{
		{"CF-B3 a success in a closed circuit without a streak", nil, "S closed c=0"},
		{"CF-B4 three failures open for the cooldown", nil, "F F F open c=3 +29s x +1s a1 half_open"},
		{"CF-B5 one failure is a streak of one", nil, "F closed c=1"},
		{"CF-B6 a failure of the provider counts", nil, "F c=1"},
		{"CF-B7 a bad request does not", nil, "E c=0"},
		{"CF-B9 past the cooldown a success closes", nil, "F F F +31s S closed c=0"},
		{"CF-B10 past the cooldown a failure re-opens, twice as long", nil, "F F F +31s F open +59s x +1s a1"},
		{"CF-B11 past the cooldown a 401 leaves it half-open", nil, "F F F +31s E half_open S closed"},
		{"CF-B12 a success ends a streak of two", nil, "F F c=2 S c=0 F F closed"},
		{"CF-B13 a 401 leaves a streak of two", nil, "F F E closed c=2 F open"},
		{"CF-B14 threshold one and a 429", threshold(1), "F open"},
		{"CF-B15 threshold one and an error of ours", threshold(1), "E closed c=0 n=0"},
		{"CF-S2 a streak below the threshold is closed", nil, "F F closed c=2"},
		{"CF-S3 open at 29 s", nil, "F F F +29s open"},
		{"CF-S3 recoverable at 30 s", nil, "F F F +30s eligible"},
		{"CF-S3 recoverable at 120 s", nil, "F F F +120s eligible"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := with(threshold(3))
			if tt.change != nil {
				tt.change(&s)
			}
			everywhere(t, on, s, func(g *rig) { g.play(tt.script) })
		})
	}
}
