package health

import (
	"context"
	"time"
)

// refreshTimeout bounds one query; a database that takes longer counts as away.
const refreshTimeout = 10 * time.Second

// refresh takes a snapshot at once and then every so often, until Stop.
func (s *Service) refresh() {
	defer close(s.done)
	for s.ctx.Err() == nil {
		settings := s.declared.Load().settings
		s.take(settings.Window)
		s.pause(settings.Refresh)
	}
}

// take replaces the snapshot. When that fails the last values stay, marked.
func (s *Service) take(window time.Duration) {
	ctx, cancel := context.WithTimeout(s.ctx, refreshTimeout)
	defer cancel()
	now := time.Now()
	aggregate, err := s.repo.Find(ctx, now.Add(-window))
	if s.ctx.Err() != nil {
		return
	}
	last := s.snapshot.Load()
	if err != nil {
		kept := *last
		kept.stale = true
		s.snapshot.Store(&kept)
		if !last.stale {
			s.log.Warn("health cannot be read, the last scores stay", "error", err)
		}
		return
	}
	s.snapshot.Store(&snapshot{Aggregate: aggregate, at: now.UTC()})
	if last.stale {
		s.log.Info("health is read again")
	}
}

func (s *Service) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.changed:
	case <-s.ctx.Done():
	}
}
