package main

import (
	"errors"
	"fmt"
	"sync"
)

// promise is something that the gateway holds to whatever happens.
type promise string

const (
	answered  promise = "every client that stays is answered"
	honest    promise = "no answer lies: what claims to be whole is whole, and the caller's own"
	asDue     promise = "every call ends as it should; a healthy target serves it where there is one"
	unaltered promise = "requests reach the upstreams as they were sent"
	recorded  promise = "every call and every attempt is on record, or counted as dropped"
	truthful  promise = "the record says what the client saw"
	steady    promise = "memory is steady under load"
	returned  promise = "goroutines and open files return to where they were"
	watched   promise = "operators can look at any time"
	reloads   promise = "good configurations are taken over, bad ones refused"
	circuits  promise = "circuits open and close, and health is known"
	outage    promise = "a database that is away costs neither calls nor records"
	stopped   promise = "the gateway stops cleanly"
)

// allPromises in the order of the report.
func allPromises() []promise {
	return []promise{answered, honest, asDue, unaltered, recorded, truthful, steady, returned, watched, reloads, circuits, outage, stopped}
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
