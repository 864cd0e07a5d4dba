package breaker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// verdictsOf returns every row of so many verdicts: success, failure, neutral.
func verdictsOf(length int) []string {
	rows := []string{""}
	for range length {
		var longer []string
		for _, row := range rows {
			longer = append(longer, row+"S", row+"F", row+"E")
		}
		rows = longer
	}
	return rows
}

// episodeScript plays verdicts one after another and says after each where the circuit
// is: closed with the success that makes enough of them, open with the failure
// after which the slots that are left cannot make enough.
func episodeScript(slots, needed int, verdicts string) string {
	words := []string{"F +30s"}
	successes, failures := 0, 0
	for _, verdict := range verdicts {
		switch verdict {
		case 'S':
			successes++
		case 'F':
			failures++
		}
		state := "half_open"
		switch {
		case successes >= needed:
			state = "closed"
		case slots-failures < needed:
			state = "open"
		}
		words = append(words, string(verdict), state)
		if state != "half_open" {
			break
		}
	}
	return strings.Join(words, " ")
}

// R33: whatever the order of verdicts, an episode ends with the one that decides
// it, and not before.
func TestEpisodeEndsWithTheVerdictThatDecides_R33(t *testing.T) {
	t.Parallel()
	for slots := 1; slots <= 4; slots++ {
		for needed := 1; needed <= slots; needed++ {
			t.Run(fmt.Sprintf("%d of %d", needed, slots), func(t *testing.T) {
				t.Parallel()
				for _, verdicts := range verdictsOf(slots + 1) {
					setup(t, with(halfOpen(slots, needed))).play(episodeScript(slots, needed, verdicts))
				}
			})
		}
	}
}

// R33: a half-open that judges by the rate of its failures is one that needs
// N − ⌈limit·N⌉ + 1 successes: it opens where the rate over all its slots is at
// least the limit and closes where it is below, however the failures lie.
func TestHalfOpenByRate_R33(t *testing.T) {
	t.Parallel()
	const all = int(breaker.All)
	for _, limit := range []int{250_000, 333_333, 500_000, 600_000, all} {
		t.Run(fmt.Sprint(limit, " millionths"), func(t *testing.T) {
			t.Parallel()
			for slots := 1; slots <= 10; slots++ {
				needed := slots - (slots*limit+all-1)/all + 1
				for failed := 0; failed <= slots; failed++ {
					want := breaker.Closed
					if failed*all >= slots*limit {
						want = breaker.Open
					}
					failures, successes := strings.Repeat("F", failed), strings.Repeat("S", slots-failed)
					for _, verdicts := range []string{failures + successes, successes + failures} {
						if got := setup(t, with(halfOpen(slots, needed))).episode(verdicts); got != want {
							t.Errorf("%s: got %v, want %v", verdicts, got, want)
						}
					}
				}
			}
		})
	}
}

// episode opens the circuit, gives its probes verdicts until it is decided, and
// returns where it is then.
func (g *rig) episode(verdicts string) breaker.State {
	g.t.Helper()
	g.play("F +30s")
	for _, verdict := range verdicts {
		g.play(string(verdict))
		if s := g.snapshot().State; s != breaker.HalfOpen {
			return s
		}
	}
	return breaker.HalfOpen
}
