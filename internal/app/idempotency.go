package app

import (
	"context"
	"time"

	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/idempotency"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// newIdempotency is the middleware of a configuration, on the keys and the flights
// of the process.
func (g *gateway) newIdempotency(cfg config.Idempotency) *pipeline.Idempotency {
	return pipeline.NewIdempotency(pipeline.IdempotencyConfig{
		TTL:       cfg.TTL,
		Reject:    cfg.OnConflict == config.OnConflictReject,
		Wait:      cfg.Wait,
		FailOpen:  cfg.FailOpen,
		MaxResult: int(cfg.MaxResult),
	}, idempotencyKeys{g.idempotency}, g.flights, g.metrics.Idempotency)
}

// idempotencyKeys is the store of keys as the pipeline knows it.
type idempotencyKeys struct{ *idempotency.Store }

func (k idempotencyKeys) Claim(ctx context.Context, a pipeline.KeyAsker, awaited string, waits bool) (pipeline.KeyClaim, error) {
	c, err := k.Store.Claim(ctx, idempotency.Asker(a), awaited, waits)
	return pipeline.KeyClaim{State: pipeline.KeyState(c.State), Token: c.Token, Left: c.Left, Payload: c.Payload, Unsure: c.Unsure}, err
}

func (k idempotencyKeys) LetGo(a pipeline.KeyAsker) { k.Store.LetGo(idempotency.Asker(a)) }

func (k idempotencyKeys) Hold(a pipeline.KeyAsker) (stop func()) {
	return k.Store.Hold(idempotency.Asker(a)).Stop
}

func (k idempotencyKeys) Keep(ctx context.Context, a pipeline.KeyAsker, answer []byte, ttl time.Duration) (bool, error) {
	return k.Store.Keep(ctx, idempotency.Asker(a), answer, ttl)
}

func (k idempotencyKeys) Mark(ctx context.Context, a pipeline.KeyAsker, ttl time.Duration) (bool, error) {
	return k.Store.Mark(ctx, idempotency.Asker(a), ttl)
}

func (k idempotencyKeys) Free(ctx context.Context, a pipeline.KeyAsker, failure []byte) error {
	return k.Store.Free(ctx, idempotency.Asker(a), failure)
}
