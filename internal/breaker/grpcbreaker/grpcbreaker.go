// Package grpcbreaker guards a gRPC client with circuits: interceptors that ask
// for a permit before a call and report afterwards what its end says about the
// server. A circuit that is shared between replicas is so here, too. The package
// must not know what the calls are about: which circuit a call belongs to is its
// user's word.
package grpcbreaker

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// Config is what the interceptors are made of.
type Config struct {
	Circuits *breaker.Registry
	// Key names the circuit of a call; method is as gRPC writes it,
	// "/package.Service/Method". A call without a key goes through unguarded.
	Key func(ctx context.Context, method string) string
	// Outcome says what the end of a call means; nil means OutcomeOf. It is not
	// asked about calls that their callers ended: those are neutral (R15, R17).
	Outcome func(err error) breaker.Outcome
	// SlowAfter says how long a call may take until it is slow, a stream until
	// its first message (R20); nil or 0 means that it never is. It is asked only
	// where a circuit opens by slow calls.
	SlowAfter func(ctx context.Context, method string) time.Duration
}

// Interceptors guard the calls of as many connections as use them.
type Interceptors struct{ cfg Config }

// New returns interceptors for the circuits of a configuration.
func New(cfg Config) *Interceptors {
	if cfg.Outcome == nil {
		cfg.Outcome = OutcomeOf
	}
	return &Interceptors{cfg: cfg}
}

// DialOptions guard a connection, both its unary calls and its streams. What is
// chained after them runs under the permit.
func (i *Interceptors) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(i.Unary), grpc.WithChainStreamInterceptor(i.Stream)}
}

// Unary is a grpc.UnaryClientInterceptor. A call that is not admitted fails
// with a *Refused.
func (i *Interceptors) Unary(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	key := i.cfg.Key(ctx, method)
	if key == "" {
		return invoke(ctx, method, request, reply, conn, options...)
	}
	var err error
	refusal := i.cfg.Circuits.Do(key, func(permit *breaker.Permit) breaker.Outcome {
		begun := time.Now()
		i.tell(ctx, method, permit)
		err = invoke(ctx, method, request, reply, conn, options...)
		return i.outcome(ctx, err, begun)
	})
	if refusal != nil {
		return refused(refusal)
	}
	return err
}

// tell tells a permit how long its call may take, so that the lease of a probe is
// kept for as long (R11), and when it is slow.
func (i *Interceptors) tell(ctx context.Context, method string, permit *breaker.Permit) {
	if deadline, ok := ctx.Deadline(); ok && permit.Probe() {
		permit.Within(time.Until(deadline))
	}
	if i.cfg.SlowAfter == nil || !permit.Watched() {
		return
	}
	if d := i.cfg.SlowAfter(ctx, method); d > 0 {
		permit.SlowAfter(d)
	}
}

// outcome says what the end of a call means for its circuit.
func (i *Interceptors) outcome(ctx context.Context, err error, begun time.Time) breaker.Outcome {
	o := breaker.Outcome{Kind: breaker.Neutral, GaveUp: true}
	if !endedByCaller(ctx, err) {
		o = i.cfg.Outcome(err)
	}
	if o.Took == 0 {
		o.Took = time.Since(begun)
	}
	return o
}
