package replicatest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSpread(t *testing.T) {
	t.Parallel()
	var all []time.Duration
	for i := range 1000 {
		all = append(all, time.Duration(1000-i))
	}
	want := Spread{N: 1000, P50: 501, P90: 901, P99: 991, P999: 1000, Max: 1000}
	if diff := cmp.Diff(want, SpreadOf(all)); diff != "" {
		t.Errorf("of 1 to 1000 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Spread{}, SpreadOf(nil)); diff != "" {
		t.Errorf("of nothing (-want +got):\n%s", diff)
	}
}

// An upstream answers every call by what it is, over one connection and over many.
func TestUpstreamAnswersEveryCall(t *testing.T) {
	t.Parallel()
	u, err := Serve(func(c Call) bool { return c.Probe && c.Generation == 1<<52 })
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for range 3 {
		l, err := dial(u.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		for call, fails := range map[Call]bool{{Probe: true, Generation: 1 << 52}: false, {Probe: true, Generation: 1}: true, {Generation: 1 << 52}: true} {
			got, err := l.call(call)
			if err != nil || got != fails {
				t.Errorf("%+v failed: %v, %v; want %v", call, got, err, fails)
			}
		}
	}
}
