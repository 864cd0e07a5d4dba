package main

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryContestantDoesWhatItIsMeasuredFor(t *testing.T) {
	t.Parallel()
	for _, c := range contestants() {
		t.Run(fmt.Sprintf("%s/%s/%d", c.operation, c.name, c.keys), func(t *testing.T) {
			t.Parallel()
			runOn(c.loop, 2, 4000) // each loop panics when a call is not treated as it should be
		})
	}
}

func TestEveryOperationHasAYardstick(t *testing.T) {
	t.Parallel()
	all := contestants()
	turn := make([]cost, len(all))
	for i := range turn {
		turn[i].cpu = 1
	}
	for i, c := range all {
		want := 1.0
		if c.operation == floor {
			want = 0
		}
		if got := ratio(all, turn, i); got != want {
			t.Errorf("%s, %s with %d keys: ratio to itself is %v, want %v", c.operation, c.name, c.keys, got, want)
		}
	}
}

func TestARatioIsToTheSameOperationAndKeys(t *testing.T) {
	t.Parallel()
	all := []contestant{
		{operation: success, name: yardstick, keys: 1},
		{operation: success, name: yardstick, keys: 1000},
		{operation: refusal, name: yardstick, keys: 1000},
		{operation: success, name: "other", keys: 1000},
		{operation: slow, name: "other", keys: 1000},
	}
	turn := []cost{{cpu: 1}, {cpu: 20}, {cpu: 300}, {cpu: 10}, {cpu: 40}}
	var got []float64
	for i := range all {
		got = append(got, ratio(all, turn, i))
	}
	if diff := cmp.Diff([]float64{1, 1, 1, 0.5, 2}, got); diff != "" {
		t.Errorf("ratios (-want +got):\n%s", diff)
	}
}

func TestMediansAreOfEachFigure(t *testing.T) {
	t.Parallel()
	got := medianCost([]cost{
		{cpu: 3, wall: 9, allocs: 1, ratio: 0.5},
		{cpu: 1, wall: 8, allocs: 1, ratio: 0.1},
		{cpu: 90, wall: 7, allocs: 0, ratio: 0.3},
		{cpu: 2, wall: 6, allocs: 1, ratio: 0.7},
	})
	want := cost{cpu: 2.5, wall: 7.5, allocs: 1, ratio: 0.4}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(cost{})); diff != "" {
		t.Errorf("medians (-want +got):\n%s", diff)
	}
}

func TestAKeyIsLookedUpByWhatItSays(t *testing.T) {
	t.Parallel()
	keys := keyNames(3)
	r := roundFrom(4, built(keys))
	got := []string{r.next(), r.next(), r.next()}
	if diff := cmp.Diff([]string{keys[1], keys[2], keys[0]}, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if len(keys[0]) != 37 {
		t.Errorf("a key has %d bytes, want 37", len(keys[0]))
	}
}
