package pipeline_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/idempotency"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// keyStore is a real store of keys, which can be taken away.
type keyStore struct {
	*idempotency.Store
	away atomic.Bool
	late atomic.Bool // claims are carried out a second later, and nobody hears of it
}

var errAway = fmt.Errorf("away: %w", cache.ErrUnavailable)

func (s *keyStore) Claim(ctx context.Context, a pipeline.KeyAsker, awaited string, waits bool) (pipeline.KeyClaim, error) {
	if s.away.Load() {
		return pipeline.KeyClaim{}, errAway
	}
	if s.late.Load() {
		time.AfterFunc(time.Second, func() { _, _ = s.Store.Claim(context.Background(), idempotency.Asker(a), awaited, waits) })
		return pipeline.KeyClaim{Unsure: true}, errAway
	}
	c, err := s.Store.Claim(ctx, idempotency.Asker(a), awaited, waits)
	return pipeline.KeyClaim{State: pipeline.KeyState(c.State), Token: c.Token, Left: c.Left, Payload: c.Payload, Unsure: c.Unsure}, err
}

func (s *keyStore) LetGo(a pipeline.KeyAsker) { s.Store.LetGo(idempotency.Asker(a)) }

func (s *keyStore) Hold(a pipeline.KeyAsker) func() { return s.Store.Hold(idempotency.Asker(a)).Stop }

func (s *keyStore) Keep(ctx context.Context, a pipeline.KeyAsker, answer []byte, ttl time.Duration) (bool, error) {
	if s.away.Load() {
		return false, errAway
	}
	return s.Store.Keep(ctx, idempotency.Asker(a), answer, ttl)
}

func (s *keyStore) Mark(ctx context.Context, a pipeline.KeyAsker, ttl time.Duration) (bool, error) {
	if s.away.Load() {
		return false, errAway
	}
	return s.Store.Mark(ctx, idempotency.Asker(a), ttl)
}

func (s *keyStore) Free(ctx context.Context, a pipeline.KeyAsker, failure []byte) error {
	if s.away.Load() {
		return errAway
	}
	return s.Store.Free(ctx, idempotency.Asker(a), failure)
}

// replica is one gateway's middleware around upstreams that it shares with others.
type replica struct {
	handle pipeline.Handler
	store  *keyStore
	mu     sync.Mutex
	counts map[string]int
}

var keyDefaults = pipeline.IdempotencyConfig{TTL: time.Hour, Wait: time.Minute, FailOpen: true, MaxResult: 1 << 20}

// replicas returns gateways that share a store and the handler behind them. It is
// to be called in a bubble.
func replicas(t *testing.T, n int, cfg pipeline.IdempotencyConfig, next behaviour) []*replica {
	t.Helper()
	shared := cache.NewMemory(cache.MemoryConfig{})
	t.Cleanup(func() { _ = shared.Close() })
	all := make([]*replica, n)
	for i := range all {
		r := &replica{store: &keyStore{Store: idempotency.New(idempotency.Config{}, shared)}, counts: map[string]int{}}
		r.store.Start()
		t.Cleanup(func() { _ = r.store.Stop(context.Background()) })
		count := func(result string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.counts[result]++
		}
		r.handle = wrap(t, pipeline.Handler(next), pipeline.NewIdempotency(cfg, r.store, new(pipeline.Flights), count))
		all[i] = r
	}
	return all
}

func (r *replica) counted(t *testing.T, want map[string]int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(want, r.counts); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// underKey is a call with a key and a client, which leaves when the returned
// function is called.
func underKey(stream bool) (*llm.Call, func(error)) {
	call := newCall(alpha)
	call.RunID, call.IdempotencyKey, call.Body, call.Facts.Stream = uuid.New(), "k", []byte("body"), stream
	left, why := make(chan struct{}), error(nil)
	call.Left = &llm.Departure{Done: left, Cause: func() error { return why }}
	return call, func(cause error) { why = cause; close(left) }
}

// outcome is what a client has got.
type outcome struct {
	Body     string
	Replayed bool
	Original bool // names another run
	Reason   llm.Reason
}

// post makes a call and says what came of it.
func (r *replica) post(call *llm.Call) outcome {
	c := &client{}
	result, err := r.handle(context.Background(), call, c.emit)
	o := outcome{Body: strings.Join(c.events, ""), Replayed: call.Signals.IdempotentReplay}
	o.Original = call.Signals.OriginalRun != "" && call.Signals.OriginalRun != call.RunID.String()
	if err != nil {
		o.Reason = llm.AsFailure(err).Reason
	} else if result.Body != nil {
		o.Body = string(result.Body)
	}
	return o
}

// posts makes a call in the background.
func (r *replica) posts(call *llm.Call) <-chan outcome {
	done := make(chan outcome, 1)
	go func() { done <- r.post(call) }()
	return done
}

func wants(t *testing.T, what string, got, want outcome) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

var (
	madeAlpha  = outcome{Body: "alpha"}
	givenAlpha = outcome{Body: "alpha", Replayed: true, Original: true}
	conflicted = outcome{Reason: llm.ReasonKeyInProgress}
)

func counting(n *atomic.Int32, b behaviour) behaviour {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		n.Add(1)
		call.Target = alpha
		return b(ctx, call, emit)
	}
}
