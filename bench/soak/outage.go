package main

import (
	"context"
	"time"
)

// takeDatabaseAway waits for the middle of the soak and takes the database away
// for a tenth of it: first its connections break and none can be made, then
// they can, but nobody answers. Calls must be served as before.
func (s *soak) takeDatabaseAway(ctx context.Context) {
	if pause(ctx, s.For/2) != nil {
		return
	}
	s.away.from = time.Now()
	for _, state := range []line{down, stalls} {
		s.relay.set(state)
		_ = pause(ctx, s.For/20) // the end of ctx ends the outage, too
	}
	s.relay.set(flows)
	s.away.to = time.Now()
}

// judgeOutage checks that the gateway noticed, that it served as large a share
// of the calls as in the same time before, and that it has recovered.
func (s *soak) judgeOutage() {
	if s.samples.highest("breakwater_database_degraded") == 0 {
		s.broken(outage, "the metrics never said that the database was away")
	}
	if s.after["breakwater_database_degraded"] != 0 {
		s.broken(outage, "the metrics say that the database is still away")
	}
	during, well := s.ledger.between(s.away)
	before, wellBefore := s.ledger.between(s.away.before())
	if share(well, during) < share(wellBefore, before)-0.05 || during < before/2 {
		s.broken(outage, "%d of %d calls were served in %s without the database, %d of %d in the same time before",
			well, during, s.away.length().Round(time.Second), wellBefore, before)
	}
}

func share(part, all int) float64 { return float64(part) / float64(max(all, 1)) }
