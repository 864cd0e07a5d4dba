package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/breakwater-llm/breakwater/bench/rig"
)

// reloadLimit is how long a gateway may take to see to its configuration.
const reloadLimit = 10 * time.Second

// reload changes the configuration about twenty times in the soak. Every third
// time it is a faulty one, which must be refused; the running one is put back.
func (s *soak) reload(ctx context.Context) {
	period := max(s.For/20, 3*time.Second)
	revision := 0
	for n := 1; pause(ctx, period) == nil; n++ {
		var err error
		if n%3 == 0 {
			err = s.offer(ctx, "refused", faulty)
			if err == nil {
				err = s.offer(ctx, "unchanged", configuration(s.relay.url, s.dir, s.upstream.address, revision))
			}
		} else {
			revision++
			err = s.offer(ctx, "applied", configuration(s.relay.url, s.dir, s.upstream.address, revision))
		}
		if ctx.Err() != nil {
			return
		}
		s.reloaded.add(err == nil)
		if err != nil {
			s.broken(reloads, "%v", err)
		}
	}
}

// offer gives the gateway a configuration and waits until it has done with it
// what is due.
func (s *soak) offer(ctx context.Context, due, text string) error {
	before, err := s.scrape(ctx)
	if err != nil {
		return err
	}
	if err := install(s.file, text); err != nil {
		return err
	}
	if err := s.gateway.Signal(syscall.SIGHUP); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reloadLimit)
	defer cancel()
	for {
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("a configuration was not %s within %s", due, reloadLimit)
		}
		now, err := s.scrape(ctx)
		if err == nil && ended(now, due) > ended(before, due) {
			return nil
		}
	}
}

func ended(series rig.Series, result string) float64 {
	return series.Sum("breakwater_config_reloads_total", `result="`+result+`"`)
}
