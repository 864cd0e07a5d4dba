package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/bench/rig"
)

// figure is something that must not grow.
type figure struct {
	name   string
	series string
	unit   float64
	share  float64 // by how much the last quarter may be over the second
	room   float64 // and how much beyond that
}

func figures() []figure {
	const mib = 1 << 20
	return []figure{
		{name: "heap in use, MiB", series: "go_memstats_heap_inuse_bytes", unit: mib, share: 0.15, room: 2 * mib},
		{name: "resident, MiB", series: "process_resident_memory_bytes", unit: mib, share: 0.20, room: 8 * mib},
		{name: "goroutines", series: "go_goroutines", unit: 1, share: 0.25, room: 50},
		{name: "open files", series: "process_open_fds", unit: 1, share: 0.25, room: 25},
	}
}

// mayReach is what a figure may be in the last quarter.
func (f figure) mayReach(second float64) float64 { return second*(1+f.share) + f.room }

// sample is the gateway at one time.
type sample struct {
	at     time.Time
	series rig.Series
}

// samples are those of a run.
type samples struct {
	mu  sync.Mutex
	all []sample
}

func (s *samples) add(one sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
}

// median returns the middle value of a series between two times; ok is false
// when there is no sample.
func (s *samples) median(series string, from, to time.Time) (value float64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var values []float64
	for _, one := range s.all {
		if v, has := one.series[series]; has && !one.at.Before(from) && one.at.Before(to) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	slices.Sort(values)
	return values[len(values)/2], true
}

// highest returns the largest value of a series.
func (s *samples) highest(series string) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := 0.0
	for _, one := range s.all {
		most = max(most, one.series[series])
	}
	return most
}

// sampling is how often the gateway's metrics are read.
const sampling = time.Second

// sample reads the metrics until ctx ends.
func (s *soak) sample(ctx context.Context) {
	every(ctx, sampling, func() {
		scraped, err := s.scrape(ctx)
		if err != nil {
			s.blameWatch(ctx, err)
			return
		}
		s.samples.add(sample{at: time.Now(), series: scraped})
	})
}

// judgeMemory compares the second quarter of the load with the last: the first
// warms up, the third has the outage.
func (s *soak) judgeMemory() {
	for _, f := range figures() {
		second, ok1 := s.quarter(f, 1)
		last, ok2 := s.quarter(f, 3)
		if !ok1 || !ok2 {
			s.broken(steady, "%s is not known in every quarter", f.name)
			continue
		}
		if last > f.mayReach(second) {
			s.broken(steady, "%s: median %.1f in the second quarter, %.1f in the last, %.1f at most is due",
				f.name, second/f.unit, last/f.unit, f.mayReach(second)/f.unit)
		}
	}
}

// quarter is the median of a figure in the n-th quarter of the load, from 0.
func (s *soak) quarter(f figure, n int) (float64, bool) {
	length := s.ended.Sub(s.began) / 4
	from := s.began.Add(time.Duration(n) * length)
	return s.samples.median(f.series, from, from.Add(length))
}

// every calls do at once and then once a period until ctx ends.
func every(ctx context.Context, period time.Duration, do func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
