package prober

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// HealthCheck is how often one provider is asked whether it answers.
type HealthCheck struct {
	Target   llm.Target // the provider itself, as of llm.HealthTarget
	Interval time.Duration
	Timeout  time.Duration
	Shared   bool // all replicas share the circuit, so that one check does for all
}

// Circuits gives permits.
type Circuits interface {
	// Acquire fills the permit, or refuses.
	Acquire(key string, p *breaker.Permit) error
}

// jitter is the share of an interval by which it varies, so that providers, and
// replicas, are not asked in step.
const jitter = 0.1

// HealthChecks asks providers whether they answer, each from time to time. What
// comes of it moves a circuit of the provider's own, and none of its models'.
type HealthChecks struct {
	circuits Circuits
	send     func(ctx context.Context, call *llm.Call, permit *breaker.Permit) error
	turns    *Turns
	log      *slog.Logger

	mu      sync.Mutex
	ctx     context.Context // of all checks; nil before Start and after Stop
	end     context.CancelFunc
	wanted  []HealthCheck
	running map[HealthCheck]context.CancelFunc
	under   sync.WaitGroup
}

// NewHealthChecks returns checks that do not run yet. send asks the call's target
// and ends the permit by what came of it.
func NewHealthChecks(circuits Circuits, send func(ctx context.Context, call *llm.Call, permit *breaker.Permit) error, turns *Turns, log *slog.Logger) *HealthChecks {
	return &HealthChecks{circuits: circuits, send: send, turns: turns, log: log, running: map[HealthCheck]context.CancelFunc{}}
}

// Start begins to check.
func (h *HealthChecks) Start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx != nil {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	h.ctx, h.end = ctx, func() { cancel(llm.ErrShutdown) }
	h.follow()
}

// Follow replaces what is checked. One that stays as it was keeps its time.
func (h *HealthChecks) Follow(checks []HealthCheck) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wanted = checks
	if h.ctx != nil && h.ctx.Err() == nil {
		h.follow()
	}
}

// follow starts and ends what it takes for exactly the wanted checks to run. The
// caller holds mu.
func (h *HealthChecks) follow() {
	stay := map[HealthCheck]bool{}
	for _, check := range h.wanted {
		stay[check] = true
		if h.running[check] != nil {
			continue
		}
		wanted, cancel := context.WithCancel(h.ctx)
		h.running[check] = cancel
		h.under.Go(func() { h.repeat(h.ctx, wanted, check) })
	}
	for check, cancel := range h.running {
		if !stay[check] {
			cancel()
			delete(h.running, check)
		}
	}
}

// Stop calls off what is under way and waits for it. It returns an error when ctx
// ends first, and may be called again.
func (h *HealthChecks) Stop(ctx context.Context) error {
	h.mu.Lock()
	if h.end != nil {
		h.end()
	}
	h.mu.Unlock()
	ended := make(chan struct{})
	go func() { h.under.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop the health checks: %w", context.Cause(ctx))
	}
}

// repeat checks until it is wanted no more, first after a part of the interval.
// A check that is under way then goes on, unless ctx ends as well.
func (h *HealthChecks) repeat(ctx, wanted context.Context, check HealthCheck) {
	timer := time.NewTimer(time.Duration(rand.Float64() * float64(check.Interval)))
	defer timer.Stop()
	for {
		select {
		case <-wanted.Done():
			return
		case <-timer.C:
		}
		h.once(ctx, check)
		timer.Reset(varied(check.Interval, rand.Float64()))
	}
}

// varied is interval ± jitter, with random in [0, 1).
func varied(interval time.Duration, random float64) time.Duration {
	return time.Duration(float64(interval) * (1 + jitter*(2*random-1)))
}

// once makes one check, unless another replica does it or the provider's circuit
// is open: then it is due again when the circuit lets a probe through.
func (h *HealthChecks) once(ctx context.Context, check HealthCheck) {
	turn := llm.OperationHealthCheck.CorrelationID(check.Target)
	if check.Shared && !h.turns.only(ctx, turn, time.Duration((1-2*jitter)*float64(check.Interval))) {
		return
	}
	var permit breaker.Permit
	if h.circuits.Acquire(check.Target.Key(), &permit) != nil {
		return
	}
	permit.Within(check.Timeout + grace)
	guarded(h.log, llm.OperationHealthCheck, check.Target, func() {
		call := ask(llm.OperationHealthCheck, check.Target, check.Timeout)
		if err := h.send(ctx, call, &permit); err != nil {
			h.log.Debug("health check failed", "provider", check.Target.Provider, "run_id", call.RunID, "reason", reason(err))
		}
	})
}
