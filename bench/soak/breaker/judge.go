package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// sample is what the process held at one time.
type sample struct {
	at         time.Time
	heap       uint64 // bytes in use after the last collection
	goroutines int
}

// watch looks at every circuit and at the process until ctx ends.
func (s *soak) watch(ctx context.Context) {
	before := map[string]breaker.Snapshot{}
	every(ctx, 500*time.Millisecond, func() {
		for _, now := range s.registry.Circuits() {
			if fault := faultOfSnapshot(before[now.Key], now, s.grows(now.Key)); fault != "" {
				s.broken(counted, "%s: %s", now.Key, fault)
			}
			before[now.Key] = now
		}
		s.takeSample()
	})
}

func (s *soak) takeSample() {
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(read)
	now := sample{at: time.Now(), heap: read[0].Value.Uint64(), goroutines: runtime.NumGoroutine()}
	s.samples = append(s.samples, now)
	// Each worker may have two at work for it; the rest are the registry's and
	// the soak's own.
	if most := s.goroutines + 3*s.Workers + 16; now.goroutines > most {
		s.broken(left, "%d goroutines under load, %d at most is due", now.goroutines, most)
	}
}

// grows reports whether the totals of a circuit never begin anew.
func (s *soak) grows(key string) bool { return temperOf(indexOf(key), s.Keys) != cold }

// faultOfSnapshot returns what is wrong with a circuit, if anything, beside what
// it was before.
func faultOfSnapshot(before, now breaker.Snapshot, grows bool) string {
	switch {
	case now.Failures > now.Calls, now.Slow > now.Calls:
		return fmt.Sprintf("shows %d failures and %d slow calls among %d", now.Failures, now.Slow, now.Calls)
	case now.ConsecutiveFailures < 0:
		return fmt.Sprintf("shows %d failures in a row", now.ConsecutiveFailures)
	case !share(now.FailureRate), !share(now.SlowRate):
		return "shows a rate that is none"
	case now.RetryAfter < 0, now.RetryAfter > longestOpen:
		return fmt.Sprintf("is open for %v more", now.RetryAfter)
	case now.ProbeSuccesses+now.ProbeFailures > now.Probes, now.LeaseExpired > now.Probes:
		return fmt.Sprintf("of %d probes %d were won, %d lost, %d given up", now.Probes, now.ProbeSuccesses, now.ProbeFailures, now.LeaseExpired)
	case grows && fell(before, now):
		return fmt.Sprintf("a total fell: %v, then %v", totals(before), totals(now))
	default:
		return ""
	}
}

func share(rate *float64) bool { return rate == nil || *rate >= 0 && *rate <= 1 }

func totals(s breaker.Snapshot) []uint64 {
	return []uint64{s.Neutral, s.Rejected, s.Probes, s.ProbeSuccesses, s.ProbeFailures, s.Stale, s.DoubleDone, s.LeaseExpired}
}

func fell(before, now breaker.Snapshot) bool {
	was := totals(before)
	for i, total := range totals(now) {
		if total < was[i] {
			return true
		}
	}
	return false
}

// judgeCounts compares what circuits counted with what their callers saw. Those
// that were let go or turned off counted less.
func (s *soak) judgeCounts() {
	if dropped := s.registry.EventsDropped(); dropped != s.chronicle.dropped {
		s.broken(ordered, "%d events are missing, %d were dropped", s.chronicle.dropped, dropped)
	}
	for _, k := range s.keys {
		now, ok := s.registry.Circuit(k.name)
		if k.temper != hot {
			continue
		}
		if !ok {
			s.broken(counted, "%s is gone although it was called all the time", k.name)
			continue
		}
		if fault := faultOfCounts(&k.seen, now); fault != "" {
			s.broken(counted, "%s: %s", k.name, fault)
		}
	}
}

func faultOfCounts(seen *seen, now breaker.Snapshot) string {
	untold, won, lost := seen.untold.Load(), seen.probesWon.Load(), seen.probesLost.Load()
	for _, c := range []struct {
		what        string
		seen, total uint64
		slack       uint64
	}{
		{"refused calls", seen.refused.Load(), now.Rejected, 0},
		{"probes", seen.probes.Load(), now.Probes, 0},
		{"second ends", seen.doubleDone.Load(), now.DoubleDone, 0},
		{"stale ends", seen.stale.Load(), now.Stale, untold},
		// A probe that is slow is lost, whatever its caller says of it (R34), and
		// whether it was depends on the settings at its end: so they are held
		// together, and each to what it can be.
		{"neutral ends and verdicts", seen.neutral.Load() + won + lost, now.Neutral + now.ProbeSuccesses + now.ProbeFailures, untold},
		{"probes won at most", won, max(won, now.ProbeSuccesses), 0},
		{"probes lost at least", lost, min(lost, now.ProbeFailures), 0},
	} {
		if c.total < c.seen || c.total > c.seen+c.slack {
			return fmt.Sprintf("counted %d %s, callers saw %d and %d calls whose end nobody was told", c.total, c.what, c.seen, c.slack)
		}
	}
	return ""
}

// judgeMemory compares the second quarter of the load with the last: the first
// warms up.
func (s *soak) judgeMemory() {
	second, last := s.quarter(1), s.quarter(3)
	if most := mayReach(second); last > most {
		s.broken(steady, "live heap: median %s in the second quarter, %s in the last, %s at most is due", mib(second), mib(last), mib(most))
	}
}

func mayReach(second uint64) uint64 { return second + second*15/100 + 2<<20 }

// quarter is the median of the live heap in the n-th quarter of the load, from 0.
func (s *soak) quarter(n int) uint64 {
	length := s.ended.Sub(s.began) / 4
	from := s.began.Add(time.Duration(n) * length)
	var heaps []uint64
	for _, one := range s.samples {
		if !one.at.Before(from) && one.at.Before(from.Add(length)) {
			heaps = append(heaps, one.heap)
		}
	}
	if len(heaps) == 0 {
		return 0
	}
	slices.Sort(heaps)
	return heaps[len(heaps)/2]
}

// judgeGoroutines waits for those that are ending.
func (s *soak) judgeGoroutines() {
	for range 100 {
		if runtime.NumGoroutine() <= s.goroutines {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	s.broken(left, "%d goroutines before, %d after", s.goroutines, runtime.NumGoroutine())
}

func mib(bytes uint64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
