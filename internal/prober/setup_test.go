package prober

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/leaktest"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var (
	alpha = llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}
	quiet = slog.New(slog.DiscardHandler)
)

// settings of a circuit that opens at the first failure and is probed by canaries.
func settings() breaker.Settings {
	return breaker.Settings{
		Enabled: true, FailureThreshold: 1, Window: breaker.Window{Calls: 10}, MinCalls: 10,
		Cooldown: 10 * time.Second, CooldownMultiplier: 1, MaxCooldown: 10 * time.Second, StepDecay: time.Minute,
		MaxRetryAfter: time.Hour, HalfOpenCalls: 1, SuccessThreshold: 1, MaxHalfOpen: 2 * time.Minute, Lease: 30 * time.Second,
		MaxNeutral: breaker.DefaultMaxNeutral, IdleTTL: breaker.DefaultIdleTTL,
		Canary: true, CanaryDemand: 5 * time.Minute,
	}
}

// leases are shared by the turns of a test as by replicas.
type leases struct {
	mu    sync.Mutex
	until map[string]time.Time
	away  bool
}

func (l *leases) Add(_ context.Context, key string, _ []byte, ttl time.Duration) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return false, errors.New("away")
	}
	if time.Now().Before(l.until[key]) {
		return false, nil
	}
	if l.until == nil {
		l.until = map[string]time.Time{}
	}
	l.until[key] = time.Now().Add(ttl)
	return true, nil
}

func (l *leases) Delete(_ context.Context, key string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.until, key)
	return nil
}
