package keys

import (
	"context"
	"time"
)

const (
	// followEvery is how often the database is asked which keys were minted and
	// revoked: either counts on every gateway within a second.
	followEvery = 400 * time.Millisecond
	// followTimeout bounds one such question.
	followTimeout = 2 * time.Second
	// overlap is how much of the time before the last answer is asked about again:
	// what was written then may have been seen only later.
	overlap = 30 * time.Second
	// sweepEvery is how often what is too old to be of use is dropped.
	sweepEvery = time.Minute
)

// Start begins to follow what is minted and revoked elsewhere. It returns at once.
func (k *Keys) Start() {
	k.done.Go(k.readIssued)
	k.done.Go(k.follow)
}

// Stop ends all work in the background. It may be called twice.
func (k *Keys) Stop(ctx context.Context) error {
	k.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.done.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *Keys) follow() {
	ask, sweep := time.NewTicker(followEvery), time.NewTicker(sweepEvery)
	defer ask.Stop()
	defer sweep.Stop()
	heard, away := k.begun, false
	for {
		begun := time.Now()
		err := k.hear(since(heard, begun) + overlap)
		switch {
		case k.ctx.Err() != nil:
			return
		case err == nil:
			heard = begun
			if away {
				k.log.Info("revocations of api keys are heard of again")
			}
			away = false
		case !away:
			k.log.Warn("revocations of api keys are not heard of, known keys stay valid up to auth.outage_ttl", "error", err)
			away = true
		}
		select {
		case <-k.ctx.Done():
			return
		case now := <-sweep.C:
			k.sweep(now)
		case <-ask.C:
		}
	}
}

// since is how long ago a moment is by the clock that is set and by the one that
// is not, whichever says longer: the one may be set back, the other stands still
// while the machine sleeps.
func since(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// hear learns what was minted, and buries what was revoked, within a time that
// ends now.
func (k *Keys) hear(within time.Duration) error {
	ctx, cancel := context.WithTimeout(k.ctx, followTimeout)
	defer cancel()
	minted, revoked, err := k.store.ListChanged(ctx, within)
	if err != nil {
		return err
	}
	k.issued.add(minted...)
	now := time.Now()
	for _, prefix := range revoked {
		k.bury(prefix, now)
	}
	return nil
}

// sweep drops what a look-up would be asked about anyway.
func (k *Keys) sweep(now time.Time) {
	settings := k.settings.Load()
	old := max(settings.OutageTTL, settings.CacheTTL, lookUpTimeout+followTimeout)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known.Range(func(prefix, e any) bool {
		if now.Sub(e.(*entry).at) > old {
			k.known.Delete(prefix)
		}
		return true
	})
}
