package operators

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// run follows the store until Stop.
func (o *Overrides) run() {
	defer close(o.done)
	look := time.NewTicker(followEvery)
	defer look.Stop()
	remind := time.NewTicker(reassertEvery)
	defer remind.Stop()
	for {
		select {
		case <-o.ctx.Done():
			return
		case <-remind.C:
			o.reassert.Store(true)
		case <-o.wake:
		case <-look.C:
		}
		o.follow()
	}
}

// follow writes what is not written yet, reads what is decided and tells the
// circuits what is new. While the store is away what is known here stays.
func (o *Overrides) follow() {
	ctx, cancel := context.WithTimeout(o.ctx, storeTimeout)
	defer cancel()
	remind := o.reassert.Swap(false)
	err := o.exchange(ctx, remind)
	if o.ctx.Err() != nil {
		return
	}
	if err != nil && remind {
		o.remind()
	}
	switch before := o.following.Swap(err == nil); {
	case err != nil && before:
		o.log.Warn("operator decisions cannot be read or written, those known here stay", "error", err)
	case err == nil && !before:
		o.log.Info("operator decisions are read and written again")
	}
}

// exchange is one turn with the store. None of this process's decisions is
// written between the reading and the telling, so what was not read is gone.
func (o *Overrides) exchange(ctx context.Context, remind bool) error {
	if err := take(ctx, o.writing); err != nil {
		return err
	}
	defer give(o.writing)
	if err := o.readClock(ctx); err != nil {
		return err
	}
	for _, key := range o.unsaved() {
		if _, err := o.write(ctx, key); err != nil {
			return err
		}
		o.log.Info("operator decision is saved", "circuit", key)
	}
	kept, err := o.store.ListOverrides(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(kept, o.expired) {
		if err := o.store.DeleteExpiredOverrides(ctx); err != nil {
			return err
		}
	}
	return o.adopt(ctx, kept, remind)
}

// readClock looks at both clocks. What the answer took is the most that they may
// be told wrong by.
func (o *Overrides) readClock(ctx context.Context) error {
	asked := time.Now()
	there, err := o.store.Time(ctx)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clock = clock{here: asked.Add(time.Since(asked) / 2), there: there}
	for key, d := range o.decided {
		o.decided[key] = d.dated(o.clock)
	}
	return nil
}

func (o *Overrides) readable() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.clock.known()
}

func (o *Overrides) expired(kept Override) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return kept.Until != nil && !o.clock.until(*kept.Until).After(time.Now())
}

// adopt brings the circuits to what is kept.
func (o *Overrides) adopt(ctx context.Context, kept []Override, remind bool) error {
	if err := take(ctx, o.telling); err != nil {
		return err
	}
	defer give(o.telling)
	var faults []error
	there := map[string]bool{}
	for _, override := range kept {
		if actions[override.State] == "" || o.expired(override) {
			continue
		}
		there[override.Key] = true
		faults = append(faults, o.adoptOne(ctx, override))
	}
	for key, d := range o.known() {
		faults = append(faults, o.settle(ctx, key, d, there[key], remind))
	}
	return errors.Join(faults...)
}

// adoptOne takes over a decision that is later than the one known here.
func (o *Overrides) adoptOne(ctx context.Context, kept Override) error {
	now := time.Now()
	o.mu.Lock()
	known, ok := o.decided[kept.Key]
	d := taken(kept, o.clock, now)
	o.mu.Unlock()
	switch {
	case !ok || kept.SetAt.After(known.setAt):
		if err := o.tell(ctx, kept.Key, d.again(now)); err != nil {
			return err
		}
		o.remember(kept.Key, d)
		o.log.Info("operator state is taken over", "circuit", kept.Key, "state", kept.State, "actor", kept.Actor, "set_at", kept.SetAt)
	case kept.SetAt.Before(known.setAt), known.ended():
		// An older decision has come back over the one made here.
		known.saved = false
		o.remember(kept.Key, known)
	}
	return nil
}

// settle sees to a decision that is known here after the store was read: it may
// be over, or ended elsewhere, or due to be told again.
func (o *Overrides) settle(ctx context.Context, key string, d decision, kept, remind bool) error {
	now := time.Now()
	switch {
	case d.over(now): // the circuit knows its time, too
		o.forget(key)
	case d.ended():
		if d.saved && now.Sub(d.made) >= buried {
			o.forget(key)
		}
	case d.saved && !kept:
		return o.endedElsewhere(ctx, key, d, now)
	case remind && !o.overruled(key, d):
		return o.tell(ctx, key, d.again(now))
	}
	return nil
}

// overruled reports whether somebody has said something else since, on a gateway
// that shares its circuits with this one and could not write it down: the last
// word is not taken back by an older one that is merely told again.
func (o *Overrides) overruled(key string, d decision) bool {
	circuit, ok := o.circuits.Circuit(key)
	return ok && circuit.Reason == breaker.ReasonOperator && circuit.State.String() != stateOf(d.command.Action)
}

// nearlyOver is how far two clocks may be apart about when a time is up. So
// shortly before its end an operator state is left to end by itself, which leads
// to probes and not straight to closed.
const nearlyOver = 5 * time.Second

func (o *Overrides) endedElsewhere(ctx context.Context, key string, d decision, now time.Time) error {
	if d.command.For > 0 && d.command.For-now.Sub(d.made) < nearlyOver {
		o.forget(key)
		return nil
	}
	if err := o.tell(ctx, key, breaker.Command{Action: breaker.ActionClose, Reassert: true}); err != nil {
		return err
	}
	o.forget(key)
	o.log.Info("operator state was ended elsewhere", "circuit", key, "state", stateOf(d.command.Action))
	return nil
}

// remind tells the circuits again what is known here.
func (o *Overrides) remind() {
	if take(o.ctx, o.telling) != nil {
		return
	}
	defer give(o.telling)
	now := time.Now()
	for key, d := range o.known() {
		if d.ended() || d.over(now) || o.overruled(key, d) {
			continue
		}
		if err := o.tell(o.ctx, key, d.again(now)); err != nil {
			o.log.Warn("circuit does not take an operator state again", "circuit", key, "error", err)
		}
	}
}

func (o *Overrides) tell(ctx context.Context, key string, c breaker.Command) error {
	if _, err := o.circuits.Command(ctx, key, c); err != nil {
		return fmt.Errorf("bring circuit %s to what is decided: %w", key, err)
	}
	return nil
}

func (o *Overrides) known() map[string]decision {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.decided)
}

func (o *Overrides) remember(key string, d decision) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.decided[key] = d
}

func (o *Overrides) forget(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.decided, key)
}
