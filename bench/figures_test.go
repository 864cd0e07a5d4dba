package main

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQuantile(t *testing.T) {
	t.Parallel()
	var o outcome
	for i := range 100 {
		o.timings = append(o.timings, timing{total: time.Duration(100 - i)})
	}
	got := []time.Duration{o.quantile(0, total), o.quantile(0.5, total), o.quantile(0.99, total), o.quantile(1, total), outcome{}.quantile(0.5, total)}
	if diff := cmp.Diff([]time.Duration{1, 51, 100, 100, 0}, got); diff != "" {
		t.Error(diff)
	}
}

func TestMedians(t *testing.T) {
	t.Parallel()
	l := load{whole, 16}
	turn := func(base, proxy, gateway time.Duration, cpu float64) round {
		return round{
			{l, direct}:     {p50: base, first: base / 2},
			{l, plainProxy}: {p50: proxy, first: proxy / 2, cpu: 0.1, rate: 100},
			{l, breakwater}: {p50: gateway, first: gateway / 2, cpu: cpu, rate: 50},
		}
	}
	table := medians([]load{l}, []round{turn(20, 40, 50, 0.2), turn(20, 60, 60, 0.1), turn(2000, 2020, 2080, 0.9)})
	if len(table) != 3 || table[2].server != breakwater {
		t.Fatalf("rows %+v, want one for each server, the gateway last", table)
	}
	want := figures{
		p50: 60, addedP50: 40, addedP50Ratio: 1.5,
		first: 30, addedFirst: 20, addedFirstRatio: 1.5,
		cpu: 0.2, cpuRatio: 2, rate: 50, rateRatio: 0.5,
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	if diff := cmp.Diff(want, table[2].figures, cmp.AllowUnexported(figures{}), near); diff != "" {
		t.Error(diff)
	}
}
