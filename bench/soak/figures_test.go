package main

import (
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/bench/rig"
)

// grown is a soak in which every figure began at one value and rose steadily
// to another.
func grown(from, to float64) *soak {
	s := &soak{breaches: newBreaches(), began: time.Unix(1000, 0), ended: time.Unix(1400, 0)}
	for i := range 400 {
		series := rig.Series{}
		for _, f := range figures() {
			series[f.series] = f.unit * (from + (to-from)*float64(i)/400)
		}
		s.samples.add(sample{at: s.began.Add(time.Duration(i) * time.Second), series: series})
	}
	return s
}

func TestMemoryIsJudged(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		s      *soak
		broken int
	}{
		"steady":           {grown(100, 100), 0},
		"falling":          {grown(100, 50), 0},
		"growing a little": {grown(100, 110), 0},
		"growing":          {grown(100, 500), len(figures())},
		"unknown":          {&soak{breaches: newBreaches()}, len(figures())},
	} {
		tt.s.judgeMemory()
		if times, first := tt.s.of(steady); times != tt.broken {
			t.Errorf("%s: broken %d times, want %d: %s", name, times, tt.broken, first)
		}
	}
}

func TestWhatRemainsIsFound(t *testing.T) {
	t.Parallel()
	quiet := rig.Series{"go_goroutines": 20, "process_open_fds": 15}
	for name, after := range map[string]rig.Series{
		"goroutines": {"go_goroutines": 20 + slack + 1, "process_open_fds": 15},
		"files":      {"go_goroutines": 20, "process_open_fds": 15 + slack + 1},
		"rows":       {"go_goroutines": 20, "process_open_fds": 15, "breakwater_telemetry_queue_length": 1},
	} {
		if err := (&soak{base: quiet, after: after}).unquiet(); err == nil {
			t.Errorf("%s: not found", name)
		}
	}
	if err := (&soak{base: quiet, after: quiet}).unquiet(); err != nil {
		t.Error(err)
	}
}
