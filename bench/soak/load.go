package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// crowd is how many calls may be under way at once; more wait, so that a
// gateway that hangs is not buried.
const crowd = 300

// call makes calls at the rate of the soak until ctx ends, and returns when the
// last of them has ended.
func (s *soak) call(ctx context.Context) {
	ending := context.WithoutCancel(ctx) // calls under way end in their own time
	next, letters := choose(kinds()), &writer{}
	room := make(chan struct{}, crowd)
	var calls sync.WaitGroup
	every(ctx, time.Second/time.Duration(s.Rate), func() {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		request := letters.write(next())
		calls.Go(func() {
			defer func() { <-room }()
			s.one(ending, request)
		})
	})
	calls.Wait()
	s.client.close()
}

// one makes one call and enters it.
func (s *soak) one(ctx context.Context, r *request) {
	began := time.Now()
	seen, promise, err := s.client.call(ctx, r)
	s.ledger.enter(r, seen, began)
	if err != nil {
		s.broken(promise, "%v", err)
		return
	}
	if !slices.Contains(r.due, seen.end) {
		s.broken(asDue, "%s (%s), run %s ended as %q with status %d, due is %q", r.id, r.name, seen.run, seen.end, seen.status, r.due)
	}
}

// telling is how often the soak says how far it is.
const telling = time.Minute

// tell says how far the soak is, until ctx ends.
func (s *soak) tell(ctx context.Context) {
	every(ctx, telling, func() {
		fmt.Fprintf(os.Stderr, "%s of %s, %d calls\n", time.Since(s.began).Round(time.Second), s.For, s.ledger.sent())
	})
}
