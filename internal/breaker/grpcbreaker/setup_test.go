package grpcbreaker_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/breaker/grpcbreaker"
	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/leaktest"
	"github.com/breakwater-llm/breakwater/internal/porttest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience bounds what a test waits for; a busy machine needs most of it.
const patience = time.Minute

const (
	unaryMethod  = "/test.Service/Unary"
	streamMethod = "/test.Service/Stream"
)

// downstream is a stream of answers, upstream one of requests.
var (
	downstream = &grpc.StreamDesc{StreamName: "Stream", ServerStreams: true}
	upstream   = &grpc.StreamDesc{StreamName: "Stream", ClientStreams: true}
	bothWays   = &grpc.StreamDesc{StreamName: "Stream", ClientStreams: true, ServerStreams: true}
)

// server is a real gRPC server that does what the test last told it to.
type server struct {
	*grpc.Server
	address string
	unary   atomic.Pointer[func(ctx context.Context) error]
	stream  atomic.Pointer[func(s grpc.ServerStream) error]
	calls   atomic.Int64
}

func (s *server) answers(unary func(ctx context.Context) error)  { s.unary.Store(&unary) }
func (s *server) streams(stream func(s grpc.ServerStream) error) { s.stream.Store(&stream) }
func (s *server) says(code codes.Code) {
	s.answers(func(context.Context) error { return status.Error(code, "said so") })
}
func (s *server) fails(err error) { s.answers(func(context.Context) error { return err }) }

// serve starts a server on an address of the test's own.
func serve(t *testing.T, address string) *server {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{address: address}
	s.Server = grpc.NewServer(grpc.ChainUnaryInterceptor(recovering))
	s.RegisterService(s.service(), nil)
	s.says(codes.OK)
	s.streams(func(grpc.ServerStream) error { return nil })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(listener)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-ended
	})
	return s
}

// recovering is what servers do about handlers that panic.
func recovering(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = status.Errorf(codes.Internal, "panic: %v", v)
		}
	}()
	return handle(ctx, request)
}

func (s *server) service() *grpc.ServiceDesc {
	unary := func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		request := new(wrapperspb.StringValue)
		if err := decode(request); err != nil {
			return nil, err
		}
		s.calls.Add(1)
		return intercept(ctx, request, nil, func(ctx context.Context, _ any) (any, error) {
			return wrapperspb.String("answer"), (*s.unary.Load())(ctx)
		})
	}
	stream := func(_ any, stream grpc.ServerStream) error {
		s.calls.Add(1)
		return (*s.stream.Load())(stream)
	}
	return &grpc.ServiceDesc{
		ServiceName: "test.Service", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: unary}},
		Streams: []grpc.StreamDesc{{StreamName: "Stream", Handler: stream, ServerStreams: true, ClientStreams: true}},
	}
}

// settings open after two failures in a row, for 30 s.
func settings() breaker.Settings {
	return breaker.Settings{
		Enabled: true, FailureThreshold: 2,
		FailureRate: breaker.All / 2, Window: breaker.Window{Span: 30 * time.Second, Buckets: 10}, MinCalls: 10,
		Cooldown: 30 * time.Second, CooldownMultiplier: 2, MaxCooldown: 5 * time.Minute,
		MaxRetryAfter: time.Hour, HalfOpenCalls: 1, SuccessThreshold: 1,
		MaxHalfOpen: 2 * time.Minute, Lease: 30 * time.Second, StepDecay: time.Minute,
		MaxNeutral: breaker.DefaultMaxNeutral, IdleTTL: breaker.DefaultIdleTTL,
	}
}

// rig is a guarded client of a server. The circuits go by a clock that only the
// test moves, the calls by the real one.
type rig struct {
	t        *testing.T
	server   *server
	circuits *breaker.Registry
	conn     *grpc.ClientConn
	key      string
	now      atomic.Int64
}

// change is what a test wants otherwise.
type change struct {
	settings func(*breaker.Settings)
	guard    func(*grpcbreaker.Config)
	inside   grpc.UnaryClientInterceptor // of the guard
}

// keys keeps the circuits of tests on one store apart.
var keys atomic.Int64

// storeEpoch is what the clock of a store shows when a test begins.
const storeEpoch = 1_800_000_000_000_000

func setup(t *testing.T, store breaker.Store, mode breaker.Mode, c change) *rig {
	t.Helper()
	s := settings()
	s.Store = mode
	if c.settings != nil {
		c.settings(&s)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	g := &rig{t: t, server: serve(t, porttest.Hold(t)), key: fmt.Sprintf("helper/%d/default", keys.Add(1))}
	g.circuits = breaker.New(breaker.Config{
		Settings:     func(string) breaker.Settings { return s },
		Now:          func() time.Duration { return time.Duration(g.now.Load()) },
		Jitter:       func() float64 { return 0 },
		Store:        store,
		StoreTimeout: patience,
		StoreClock:   func() int64 { return storeEpoch + time.Duration(g.now.Load()).Microseconds() },
	})
	guard := grpcbreaker.Config{Circuits: g.circuits, Key: func(context.Context, string) string { return g.key }}
	if c.guard != nil {
		c.guard(&guard)
	}
	options := append(grpcbreaker.New(guard).DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if c.inside != nil {
		options = append(options, grpc.WithChainUnaryInterceptor(c.inside))
	}
	conn, err := grpc.NewClient(g.server.address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	g.conn = conn
	return g
}

// everywhere runs a test on circuits of this process alone and on shared ones,
// in a store of this process and on a real server.
func everywhere(t *testing.T, c change, test func(t *testing.T, g *rig)) {
	t.Helper()
	redis, err := cache.OpenValkey(redistest.Start(t).URL(), cache.ValkeyConfig{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	memory := cache.NewMemory(cache.MemoryConfig{})
	t.Cleanup(func() { _, _ = redis.Close(), memory.Close() })
	for name, store := range map[string]breaker.Store{"local": nil, "memory": memory, "redis": redis} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mode := breaker.Strict
			if store == nil {
				mode = breaker.Local
			}
			test(t, setup(t, store, mode, c))
		})
	}
}

func (g *rig) advance(d time.Duration) { g.now.Add(int64(d)) }

// call makes a unary call.
func (g *rig) call(ctx context.Context) error {
	return g.conn.Invoke(ctx, unaryMethod, wrapperspb.String("request"), new(wrapperspb.StringValue))
}

// calls makes n calls, each of which must end with the code.
func (g *rig) calls(n int, code codes.Code) {
	g.t.Helper()
	for range n {
		if err := g.call(g.t.Context()); status.Code(err) != code {
			g.t.Fatalf("call: got %v, want %v", err, code)
		}
	}
}

// counts is what these tests look at of a circuit.
type counts struct {
	State                    string
	Calls, Failures, Neutral uint64
}

func (g *rig) counts() counts {
	s, _ := g.circuits.Circuit(g.key)
	return counts{s.State.String(), s.Calls, s.Failures, s.Neutral}
}

func (g *rig) wants(want counts) {
	g.t.Helper()
	if got := g.counts(); got != want {
		g.t.Errorf("circuit: got %+v, want %+v", got, want)
	}
}

// awaits is wants for what a context's end brings about, which has a goroutine of
// its own.
func (g *rig) awaits(want counts) {
	g.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for g.counts() != want {
		select {
		case <-tick.C:
		case <-deadline.C:
			g.t.Fatalf("circuit: still %+v, want %+v", g.counts(), want)
		}
	}
}

// reached is how many calls the server has seen.
func (g *rig) reached(want int64) {
	g.t.Helper()
	if got := g.server.calls.Load(); got != want {
		g.t.Errorf("the server has seen %d calls, want %d", got, want)
	}
}
