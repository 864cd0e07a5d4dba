package idempotency

import (
	"context"
	"sync"
	"time"
)

const (
	// releaseEvery is the pause between two trials to let keys go.
	releaseEvery = 100 * time.Millisecond
	// releaseAgain is when a key is let go once more that was not held: the claim may
	// have been on its way still.
	releaseAgain = time.Second
	// mostReleases is how many keys may wait to be let go. Those beyond are held until
	// their lease is over.
	mostReleases = 1024
)

// releases are the claims of which nobody knows what came of them, and which
// nobody wants any more.
type releases struct {
	mu   sync.Mutex
	due  []release
	wake chan struct{} // holds a token once there are some
}

type release struct {
	asker Asker
	next  time.Time
	until time.Time // when a lease would be over that was given by now
	again bool      // it was not held when the store was asked
}

func newReleases() releases { return releases{wake: make(chan struct{}, 1)} }

// LetGo gives a key back that a claim may have got, though its caller never heard:
// in the background, as soon as the store answers, and never one of another owner.
// The caller must not claim the key under that token again.
func (s *Store) LetGo(a Asker) {
	now := time.Now()
	r := &s.releases
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.due) >= mostReleases {
		return
	}
	r.due = append(r.due, release{asker: a, next: now, until: now.Add(s.lease)})
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// letGo lets keys go until ctx ends.
func (s *Store) letGo(ctx context.Context) {
	for {
		select {
		case <-s.releases.wake:
		case <-ctx.Done():
			return
		}
		for left := true; left; {
			select {
			case <-time.After(releaseEvery):
				left = s.letGoOnce(ctx)
			case <-ctx.Done():
				return
			}
		}
	}
}

// letGoOnce tries each key that is due, until the store does not answer. Reports
// whether any is left. Keys that come meanwhile stand behind those that are there.
func (s *Store) letGoOnce(ctx context.Context) bool {
	r := &s.releases
	r.mu.Lock()
	due := append([]release(nil), r.due...)
	r.mu.Unlock()

	var left []release
	answers := true
	for _, one := range due {
		switch now := time.Now(); {
		case now.After(one.until):
			continue
		case answers && !now.Before(one.next):
			freed, err := s.free(ctx, one.asker, nil)
			answers = err == nil
			if freed || answers && one.again {
				continue
			}
			if answers {
				one.again, one.next = true, now.Add(releaseAgain)
			}
		}
		left = append(left, one)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = append(left, r.due[len(due):]...)
	return len(r.due) > 0
}
