package main

import (
	"errors"
	"fmt"
	"sync"
)

// promise is something that the breaker holds to whatever happens.
type promise string

const (
	probing   promise = "an episode hands out no more probes than it has slots"
	waits     promise = "every refusal says truly how long to wait"
	obeyed    promise = "what a person said holds until something else is said"
	counted   promise = "every outcome is counted once, and no counter is absurd"
	ordered   promise = "events are a chain of legal moves, no generation used twice"
	contained promise = "a panic goes on with its value, and only the first end of a call counts"
	recovered promise = "every circuit closes once its target is well"
	steady    promise = "memory is bounded"
	left      promise = "no goroutine is left behind"
)

// allPromises in the order of the report.
func allPromises() []promise {
	return []promise{probing, waits, obeyed, counted, ordered, contained, recovered, steady, left}
}

// breaches are the promises that were broken: how often, and how the first time.
type breaches struct {
	mu    sync.Mutex
	count map[promise]int
	first map[promise]string
}

func newBreaches() *breaches {
	return &breaches{count: map[promise]int{}, first: map[promise]string{}}
}

// broken notes that a promise was broken.
func (b *breaches) broken(p promise, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count[p]++
	if b.count[p] == 1 {
		b.first[p] = fmt.Sprintf(format, args...)
	}
}

// of returns how often a promise was broken, and how the first time.
func (b *breaches) of(p promise) (times int, first string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count[p], b.first[p]
}

// err has one line for each broken promise; nil when all were kept.
func (b *breaches) err() error {
	var lines []error
	for _, p := range allPromises() {
		if times, first := b.of(p); times > 0 {
			lines = append(lines, fmt.Errorf("broken %d times: %s: the first: %s", times, p, first))
		}
	}
	return errors.Join(lines...)
}
