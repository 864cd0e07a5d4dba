package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"
)

const (
	// calming is how long the gateway may take to be quiet again.
	calming = 45 * time.Second
	// slack is how many goroutines and open files there may be more than at the
	// base: the connections of the database, which come with the load and stay,
	// and what serves the look itself.
	slack = 2*maxConns + 4
)

// calmDown waits until the gateway has let go of what the load needed and has
// written its records, and judges what it says of itself then.
func (s *soak) calmDown(ctx context.Context) error {
	http.DefaultClient.CloseIdleConnections()
	letting, cancel := context.WithTimeout(ctx, calming)
	defer cancel()
	if err := s.upstream.letGo(letting); err != nil {
		s.broken(returned, "requests to the upstream go on without the calls that they are for: %v", err)
	}
	err := s.becomesQuiet(letting)
	if s.after == nil {
		return err
	}
	if err != nil {
		s.broken(returned, "%v", err)
	}
	s.judgeOutage()
	s.judgeCircuits(ctx)
	return ctx.Err()
}

// becomesQuiet returns nil once nothing is above the base; the error is what
// still was at the end.
func (s *soak) becomesQuiet(ctx context.Context) error {
	unquiet := errors.New("the metrics cannot be read")
	for {
		now, err := s.scrape(ctx)
		if err == nil {
			s.after = now
			if unquiet = s.unquiet(); unquiet == nil {
				return nil
			}
		}
		if pause(ctx, time.Second) != nil {
			return unquiet
		}
	}
}

func (s *soak) unquiet() error {
	for _, name := range []string{"go_goroutines", "process_open_fds"} {
		if now, base := s.after[name], s.base[name]; now > base+slack {
			return fmt.Errorf("%s is %.0f after all calls have ended, it was %.0f before the first", name, now, base)
		}
	}
	if waiting := s.after["breakwater_telemetry_queue_length"]; waiting > 0 {
		return fmt.Errorf("%.0f rows wait for the database", waiting)
	}
	return nil
}

// judgeCircuits checks that circuits have moved both ways, and that every
// target has a circuit and every target that was called has a health.
func (s *soak) judgeCircuits(ctx context.Context) {
	for _, to := range []string{"open", "half_open", "closed"} {
		if s.after.Sum("breakwater_circuit_transitions_total", `to_state="`+to+`"`) == 0 {
			s.broken(circuits, "no circuit has ever become %s", to)
		}
	}
	_, listed, err := get(ctx, s.admin("/api/v1/circuits"))
	if err != nil {
		s.broken(circuits, "%v", err)
	}
	for _, p := range providers() {
		for _, model := range p.models {
			labels := fmt.Sprintf(`{model="%s",provider="%s",region="r1"}`, model, p.name)
			if _, known := s.after["breakwater_circuit_state"+labels]; !known {
				s.broken(circuits, "the metrics have no state of %s/%s", p.name, model)
			}
			if !strings.Contains(listed, fmt.Sprintf(`"key":"%s/%s/r1"`, p.name, model)) {
				s.broken(circuits, "the operator API has no circuit of %s/%s", p.name, model)
			}
		}
	}
	// Spares are called rarely, and what only refuses has no score.
	for _, called := range []string{`{model="m1",provider="alpha",region="r1"}`, `{model="flaky",provider="troubled",region="r1"}`} {
		if score, known := s.after["breakwater_provider_health_score"+called]; !known || math.IsNaN(score) {
			s.broken(circuits, "the health of %s is not known", called)
		}
	}
}
