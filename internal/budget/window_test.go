package budget

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestTheWindowAgainstAList adds to a window, takes from it, stores it and reads it
// again as time passes, and holds all that it says to a list of what was added.
func TestTheWindowAgainstAList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var w window
		now, text := int64(1_790_000_000), ""
		listed := map[int64]second{}
		within := func(at int64) bool { return at+windowSeconds >= now }
		total := func(since int64, of of) (sum int64) {
			for at, s := range listed {
				if within(at) && at >= since {
					sum += of(s.requests, s.tokens)
				}
			}
			return sum
		}
		t.Repeat(map[string]func(*rapid.T){
			"pass": func(t *rapid.T) {
				now += rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 70)).Draw(t, "seconds")
			},
			"add": func(t *rapid.T) {
				at := now - rapid.Int64Range(0, windowSeconds).Draw(t, "ago")
				s := listed[at]
				requests := max(rapid.Int64Range(-2, 3).Draw(t, "requests"), -s.requests)
				tokens := max(rapid.OneOf(rapid.Int64Range(-50, 100), rapid.Just(int64(top/64))).Draw(t, "tokens"), -s.tokens)
				listed[at] = second{requests: s.requests + requests, tokens: min(s.tokens+tokens, top)}
				w.read(text, now)
				w.add(at, requests, tokens)
				text = w.encode()
			},
			"": func(t *rapid.T) {
				w.read(text, now)
				got := []int64{w.requests, w.tokens, w.empties(requestsOf), w.empties(tokensOf)}
				want := []int64{total(0, requestsOf), min(total(0, tokensOf), top), emptied(listed, within, requestsOf), emptied(listed, within, tokensOf)}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("requests, tokens, and when they are gone (-want +got):\n%s", diff)
				}
				limit := w.requests/2 + 1
				at := w.fits(limit, 1, requestsOf)
				if w.requests+1 <= limit || at == 0 {
					return
				}
				if left := total(at/1000-windowSeconds, requestsOf); left+1 > limit {
					t.Fatalf("at %d one more shall fit into %d: got %d in the window", at, limit, left)
				}
				if left := total(at/1000-windowSeconds-1, requestsOf); left+1 <= limit {
					t.Fatalf("one more fits into %d before %d", limit, at)
				}
			},
		})
	})
}

type second struct{ requests, tokens int64 }

func emptied(listed map[int64]second, within func(int64) bool, of of) (at int64) {
	for s, n := range listed {
		if within(s) && of(n.requests, n.tokens) > 0 {
			at = max(at, leaves(s))
		}
	}
	return at
}
