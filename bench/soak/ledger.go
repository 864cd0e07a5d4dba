package main

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// ledger is what all clients together saw.
type ledger struct {
	mu     sync.Mutex
	ends   map[string]map[end]int // by kind
	runs   map[uuid.UUID]entry    // of calls that must be on record
	blind  int                    // calls of which no header was seen
	spoilt int                    // calls that were refused before they became one
	times  []moment
}

// moment is when a call began, and whether it was served.
type moment struct {
	began  time.Time
	served bool
}

// entry is what one client saw of a run.
type entry struct {
	status int
	end    end
}

func newLedger() *ledger {
	return &ledger{ends: map[string]map[end]int{}, runs: map[uuid.UUID]entry{}}
}

func (l *ledger) enter(r *request, s sight, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ends[r.name] == nil {
		l.ends[r.name] = map[end]int{}
	}
	l.ends[r.name][s.end]++
	l.times = append(l.times, moment{began, s.end == served})
	switch {
	case s.run == uuid.Nil:
		l.blind++
	case r.unrecorded:
		l.spoilt++
	default:
		l.runs[s.run] = entry{status: s.status, end: s.end}
	}
}

// sent is how many calls have ended so far.
func (l *ledger) sent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs) + l.blind + l.spoilt
}

// total is how many calls ended in a way.
func (l *ledger) total(e end) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := 0
	for _, ends := range l.ends {
		sum += ends[e]
	}
	return sum
}

// between is how many calls began in a stretch, and how many of them were
// served.
func (l *ledger) between(s stretch) (calls, well int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, call := range l.times {
		if call.began.Before(s.from) || !call.began.Before(s.to) {
			continue
		}
		calls++
		if call.served {
			well++
		}
	}
	return calls, well
}

// tally counts what was done and how often it went well.
type tally struct {
	mu         sync.Mutex
	done, well int
}

func (t *tally) add(well bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done++
	if well {
		t.well++
	}
}

// stretch is a time from one moment to another.
type stretch struct{ from, to time.Time }

func (s stretch) length() time.Duration { return s.to.Sub(s.from) }

// before is the stretch of the same length that ends where this one begins.
func (s stretch) before() stretch { return stretch{s.from.Add(-s.length()), s.from} }
