package grpcbreaker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/breaker/grpcbreaker"
)

// M4, R31: a refusal is UNAVAILABLE with a RetryInfo, and the server does not
// hear of the call.
func TestAnOpenCircuitRefusesAsUnavailable(t *testing.T) {
	t.Parallel()
	everywhere(t, change{}, func(t *testing.T, g *rig) {
		g.server.says(codes.Internal)
		g.calls(2, codes.Internal)
		g.advance(10500 * time.Millisecond)
		g.server.says(codes.OK)

		err := g.call(t.Context())
		if got := status.Code(err); got != codes.Unavailable {
			t.Errorf("refused with code %v, want Unavailable", got)
		}
		if got := grpcbreaker.RetryDelay(err); got != 20*time.Second {
			t.Errorf("RetryInfo: got %v, want 20s", got)
		}
		var refusal *breaker.Refusal
		if !errors.As(err, &refusal) || refusal.Key != g.key || refusal.Reason != breaker.ReasonCircuitOpen || refusal.Cause != "internal" {
			t.Errorf("the refusal behind the error: got %+v", refusal)
		}
		g.reached(2)
	})
}

// R31: nobody knows when a person lets calls through again.
func TestAForcedOpenCircuitNamesNoTime(t *testing.T) {
	t.Parallel()
	g := setup(t, nil, breaker.Local, change{})
	if _, err := g.circuits.Command(t.Context(), g.key, breaker.Command{Action: breaker.ActionOpen}); err != nil {
		t.Fatal(err)
	}
	err := g.call(t.Context())
	if s := status.Convert(err); s.Code() != codes.Unavailable || len(s.Details()) != 0 {
		t.Errorf("got %v with details %v, want Unavailable and none", s.Code(), s.Details())
	}
}

// T4: exactly as long as the server asks for, at the first failure.
func TestARetryInfoOpensForExactlyThatLong(t *testing.T) {
	t.Parallel()
	everywhere(t, change{}, func(t *testing.T, g *rig) {
		g.server.fails(hint(t, codes.ResourceExhausted, 7*time.Second))
		g.calls(1, codes.ResourceExhausted)
		g.server.says(codes.OK)
		g.advance(7*time.Second - time.Millisecond)
		g.calls(1, codes.Unavailable)
		g.advance(time.Millisecond)
		g.calls(1, codes.OK)
		g.wants(counts{State: "closed"})
	})
}

// R14: what is about the request neither opens nor interrupts a streak.
func TestNeutralCodesLeaveTheStreakAlone(t *testing.T) {
	t.Parallel()
	everywhere(t, change{}, func(t *testing.T, g *rig) {
		g.server.says(codes.NotFound)
		g.calls(5, codes.NotFound)
		g.server.says(codes.Unavailable)
		g.calls(1, codes.Unavailable)
		g.server.says(codes.InvalidArgument)
		g.calls(1, codes.InvalidArgument)
		g.wants(counts{State: "closed", Calls: 1, Failures: 1, Neutral: 6})
		g.server.says(codes.Unavailable)
		g.calls(1, codes.Unavailable)
		g.wants(counts{State: "open", Calls: 2, Failures: 2, Neutral: 6})
	})
}

// R15, R17: whose clock it was decides.
func TestWhoseClockEndsACall(t *testing.T) {
	t.Parallel()
	const soon, late = 20 * time.Millisecond, time.Hour
	tests := map[string]struct {
		bound func(ctx context.Context) (context.Context, context.CancelFunc)
		want  counts
		code  codes.Code
	}{
		"the server's": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return grpcbreaker.WithTimeout(ctx, soon)
		}, counts{"closed", 1, 1, 0}, codes.DeadlineExceeded},
		"the caller's": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, soon)
		}, counts{"closed", 0, 0, 1}, codes.DeadlineExceeded},
		"the caller's, before the server's": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithTimeout(ctx, soon)
			bound, release := grpcbreaker.WithTimeout(ctx, late)
			return bound, func() { release(); cancel() }
		}, counts{"closed", 0, 0, 1}, codes.DeadlineExceeded},
		"the caller's, set after the server's": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			bound, release := grpcbreaker.WithTimeout(ctx, late)
			ctx, cancel := context.WithTimeout(bound, soon)
			return ctx, func() { cancel(); release() }
		}, counts{"closed", 0, 0, 1}, codes.DeadlineExceeded},
		"nobody's: the caller leaves": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			bound, release := grpcbreaker.WithTimeout(ctx, late)
			ctx, cancel := context.WithCancel(bound)
			time.AfterFunc(soon, cancel)
			return ctx, release
		}, counts{"closed", 0, 0, 1}, codes.Canceled},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, nil, breaker.Local, change{})
			g.server.answers(func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			ctx, cancel := tt.bound(t.Context())
			defer cancel()
			if err := g.call(ctx); status.Code(err) != tt.code {
				t.Errorf("call: got %v, want %v", err, tt.code)
			}
			g.wants(tt.want)
		})
	}
}

// A server that says that its own time is over has failed, also while its caller
// has plenty left.
func TestTheServersOwnDeadlineIsAFailure(t *testing.T) {
	t.Parallel()
	g := setup(t, nil, breaker.Local, change{})
	g.server.says(codes.DeadlineExceeded)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := g.call(ctx); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("call: got %v", err)
	}
	g.wants(counts{"closed", 1, 1, 0})
}

func TestAProbeFindsOut(t *testing.T) {
	t.Parallel()
	everywhere(t, change{}, func(t *testing.T, g *rig) {
		g.server.says(codes.DataLoss)
		g.calls(2, codes.DataLoss)
		g.advance(30 * time.Second)
		g.calls(1, codes.DataLoss)
		g.wants(counts{State: "open", Calls: 1, Failures: 1})
		g.advance(30 * time.Second)
		g.calls(1, codes.Unavailable) // the second cooldown is twice as long
		g.advance(30 * time.Second)
		g.server.says(codes.OK)
		g.calls(1, codes.OK)
		g.wants(counts{State: "closed"})
		g.reached(4)
	})
}

// R2: of all who come while a probe is under way, none reaches the server.
func TestOneProbeAtATime(t *testing.T) {
	t.Parallel()
	everywhere(t, change{}, func(t *testing.T, g *rig) {
		g.server.says(codes.Internal)
		g.calls(2, codes.Internal)
		g.advance(30 * time.Second)

		inside, others := make(chan struct{}), make(chan struct{})
		g.server.answers(func(context.Context) error {
			close(inside) // a second probe panics
			<-others
			return nil
		})
		probe := make(chan error, 1)
		go func() { probe <- g.call(t.Context()) }()
		<-inside
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() {
				var refusal *breaker.Refusal
				if err := g.call(t.Context()); !errors.As(err, &refusal) || refusal.Reason != breaker.ReasonProbing {
					t.Errorf("beside a probe: got %v, want a refusal because of it", err)
				}
			})
		}
		callers.Wait()
		close(others)
		if err := <-probe; err != nil {
			t.Errorf("the probe: %v", err)
		}
		g.wants(counts{State: "closed"})
		g.reached(3)
	})
}

// R15, T15: a probe that its caller gives up returns its slot at once.
func TestACancelledProbeReturnsItsSlot(t *testing.T) {
	t.Parallel()
	everywhere(t, change{}, func(t *testing.T, g *rig) {
		g.server.says(codes.Internal)
		g.calls(2, codes.Internal)
		g.advance(30 * time.Second)
		ctx, leave := context.WithCancel(t.Context())
		g.server.answers(func(ctx context.Context) error {
			leave()
			<-ctx.Done()
			return ctx.Err()
		})
		if err := g.call(ctx); status.Code(err) != codes.Canceled {
			t.Errorf("the probe: got %v, want Canceled", err)
		}
		g.server.says(codes.OK)
		g.calls(1, codes.OK)
		g.wants(counts{State: "closed", Neutral: 1})
	})
}

func TestAPanicOnTheServerIsAFailure(t *testing.T) {
	t.Parallel()
	g := setup(t, nil, breaker.Local, change{})
	g.server.answers(func(context.Context) error { panic("boom") })
	g.calls(1, codes.Internal)
	g.wants(counts{"closed", 1, 1, 0})
}

// R13: a panic on the client's side counts and goes on.
func TestAPanicOnTheClientIsAFailureAndGoesOn(t *testing.T) {
	t.Parallel()
	g := setup(t, nil, breaker.Local, change{inside: func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
		panic("boom")
	}})
	got := func() (v any) {
		defer func() { v = recover() }()
		_ = g.call(t.Context())
		return nil
	}()
	if got != "boom" {
		t.Errorf("the panic went on as %v", got)
	}
	g.wants(counts{"closed", 1, 1, 0})
}

func TestAServerThatIsGoneOpensAndComesBack(t *testing.T) {
	t.Parallel()
	g := setup(t, nil, breaker.Local, change{})
	g.calls(1, codes.OK)
	g.server.Stop()
	g.calls(3, codes.Unavailable)
	g.wants(counts{State: "open", Calls: 3, Failures: 2})

	serve(t, g.server.address)
	g.conn.ResetConnectBackoff()
	g.advance(30 * time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := g.conn.Invoke(ctx, unaryMethod, request, answer(), grpc.WaitForReady(true)); err != nil {
		t.Errorf("the probe: %v", err)
	}
	g.wants(counts{State: "closed"})
}

// T3: calls that take longer than their user says open the circuit as well.
func TestSlowCallsOpen(t *testing.T) {
	t.Parallel()
	var asked string
	g := setup(t, nil, breaker.Local, change{
		settings: func(s *breaker.Settings) { s.SlowRate, s.MinCalls = breaker.All/2, 2 },
		guard: func(c *grpcbreaker.Config) {
			c.SlowAfter = func(_ context.Context, method string) time.Duration { asked = method; return time.Second }
		},
	})
	g.server.answers(func(context.Context) error { g.advance(2 * time.Second); return nil })
	g.calls(2, codes.OK)
	g.calls(1, codes.Unavailable)
	if s, _ := g.circuits.Circuit(g.key); s.Reason != breaker.ReasonSlowRate || asked != unaryMethod {
		t.Errorf("opened because of %q, asked about %q", s.Reason, asked)
	}
}

// A user may see the ends of calls otherwise, but not who left.
func TestTheUserSaysWhatAnEndMeans(t *testing.T) {
	t.Parallel()
	g := setup(t, nil, breaker.Local, change{guard: func(c *grpcbreaker.Config) {
		c.Outcome = func(err error) breaker.Outcome {
			return breaker.Outcome{Kind: breaker.Failure, Cause: "mine"}
		}
	}})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.call(gone); status.Code(err) != codes.Canceled {
		t.Errorf("call: got %v, want Canceled", err)
	}
	g.wants(counts{"closed", 0, 0, 1})
	g.calls(2, codes.OK)
	if s, _ := g.circuits.Circuit(g.key); s.State != breaker.Open || s.Cause != "mine" {
		t.Errorf("circuit: %v because of %q, want open because of mine", s.State, s.Cause)
	}
}

func TestACallWithoutAKeyIsUnguarded(t *testing.T) {
	t.Parallel()
	g := setup(t, nil, breaker.Local, change{guard: func(c *grpcbreaker.Config) {
		c.Key = func(context.Context, string) string { return "" }
	}})
	g.server.says(codes.Internal)
	g.calls(20, codes.Internal)
	stream, err := g.conn.NewStream(t.Context(), downstream, streamMethod)
	if err != nil {
		t.Fatal(err)
	}
	drain(t, stream)
	if all := g.circuits.Circuits(); len(all) != 0 {
		t.Errorf("there are circuits: %+v", all)
	}
}
