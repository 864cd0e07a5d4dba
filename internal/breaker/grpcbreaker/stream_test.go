package grpcbreaker_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/breaker/grpcbreaker"
)

var request = wrapperspb.String("request")

func answer() *wrapperspb.StringValue { return new(wrapperspb.StringValue) }

// open begins a stream of answers, with its one request.
func (g *rig) open(ctx context.Context) grpc.ClientStream {
	g.t.Helper()
	stream, err := g.conn.NewStream(ctx, downstream, streamMethod)
	if err != nil {
		g.t.Fatal(err)
	}
	if err := errors.Join(stream.SendMsg(request), stream.CloseSend()); err != nil {
		g.t.Fatal(err)
	}
	return stream
}

// drain reads a stream to its end.
func drain(t *testing.T, stream grpc.ClientStream) (messages int, err error) {
	t.Helper()
	for {
		if err = stream.RecvMsg(answer()); err != nil {
			return messages, err
		}
		messages++
	}
}

// sends is a stream of n messages that ends with an error or well.
func sends(n int, end error) func(grpc.ServerStream) error {
	return func(s grpc.ServerStream) error {
		for range n {
			if err := s.SendMsg(wrapperspb.String("message")); err != nil {
				return err
			}
		}
		return end
	}
}

// R18: the end decides.
func TestTheEndOfAStreamDecides(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		serve    func(grpc.ServerStream) error
		messages int
		want     counts
	}{
		"messages and a good end":       {sends(3, nil), 3, counts{"closed", 1, 0, 0}},
		"no message and a good end":     {sends(0, nil), 0, counts{"closed", 1, 0, 0}},
		"a failure after messages":      {sends(3, status.Error(codes.Unavailable, "")), 3, counts{"closed", 1, 1, 0}},
		"a failure at once":             {sends(0, status.Error(codes.Internal, "")), 0, counts{"closed", 1, 1, 0}},
		"a neutral end after messages":  {sends(2, status.Error(codes.OutOfRange, "")), 2, counts{"closed", 0, 0, 1}},
		"the server's own cancellation": {sends(1, status.Error(codes.Canceled, "")), 1, counts{"closed", 0, 0, 1}},
	}
	everywhere(t, change{}, func(t *testing.T, g *rig) {
		for name, tt := range tests {
			if _, err := g.circuits.Command(t.Context(), g.key, breaker.Command{Action: breaker.ActionReset}); err != nil {
				t.Fatal(err)
			}
			before := g.counts().Neutral
			g.server.streams(tt.serve)
			if messages, _ := drain(t, g.open(t.Context())); messages != tt.messages {
				t.Errorf("%s: %d messages, want %d", name, messages, tt.messages)
			}
			got := g.counts()
			got.Neutral -= before
			if got != tt.want {
				t.Errorf("%s: circuit %+v, want %+v", name, got, tt.want)
			}
		}
	})
}

// The permit of a stream is held as long as the stream lasts.
func TestAStreamCountsOnlyAtItsEnd(t *testing.T) {
	t.Parallel()
	g := setup(t, nil, breaker.Local, change{})
	more := make(chan struct{})
	g.server.streams(func(s grpc.ServerStream) error {
		if err := s.SendMsg(wrapperspb.String("first")); err != nil {
			return err
		}
		<-more
		return nil
	})
	stream := g.open(t.Context())
	if err := stream.RecvMsg(answer()); err != nil {
		t.Fatal(err)
	}
	g.wants(counts{State: "closed"})
	close(more)
	if _, err := drain(t, stream); !errors.Is(err, io.EOF) {
		t.Errorf("end: %v", err)
	}
	g.wants(counts{"closed", 1, 0, 0})
	_ = stream.RecvMsg(answer()) // again behind the end
	g.wants(counts{"closed", 1, 0, 0})
}

// Headers and trailers pass, also those of a stream that has nothing else.
func TestHeadersAndTrailersPass(t *testing.T) {
	t.Parallel()
	g := setup(t, nil, breaker.Local, change{})
	g.server.streams(func(s grpc.ServerStream) error {
		s.SetTrailer(metadata.Pairs("after", "2"))
		return s.SendHeader(metadata.Pairs("before", "1"))
	})
	stream := g.open(t.Context())
	header, err := stream.Header()
	if err != nil || len(header.Get("before")) != 1 {
		t.Errorf("header: got %v, %v", header, err)
	}
	g.wants(counts{State: "closed"}) // the header is not the end
	if _, err := drain(t, stream); !errors.Is(err, io.EOF) {
		t.Errorf("end: %v", err)
	}
	if got := stream.Trailer().Get("after"); len(got) != 1 {
		t.Errorf("trailer: got %v", got)
	}
	g.wants(counts{"closed", 1, 0, 0})
}

// A client that stops reading and leaves says nothing of the server, and gives
// the permit back without reading on.
func TestAStreamThatItsReaderLeaves(t *testing.T) {
	t.Parallel()
	const soon = 20 * time.Millisecond
	tests := map[string]struct {
		bound  func(ctx context.Context) (context.Context, context.CancelFunc)
		leaves bool
		want   counts
	}{
		"by cancelling": {context.WithCancel, true, counts{"closed", 0, 0, 1}},
		"by its deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, soon)
		}, false, counts{"closed", 0, 0, 1}},
		"when the server's time is over": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return grpcbreaker.WithTimeout(ctx, soon)
		}, false, counts{"closed", 1, 1, 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, nil, breaker.Local, change{})
			g.server.streams(func(s grpc.ServerStream) error {
				for s.Context().Err() == nil {
					if err := s.SendMsg(wrapperspb.String("endless")); err != nil {
						return err
					}
				}
				return nil
			})
			ctx, leave := tt.bound(t.Context())
			defer leave()
			// On a busy machine the time may be over before it is open, which has the
			// same meaning. gRPC may say so a moment before the context does.
			if _, err := g.conn.NewStream(ctx, bothWays, streamMethod); err != nil && status.Code(err) != codes.DeadlineExceeded {
				t.Fatal(err)
			}
			if tt.leaves {
				leave()
			}
			<-ctx.Done()
			g.awaits(tt.want)
		})
	}
}

// R18: the first message of a probe is its verdict; a failure behind it counts.
func TestTheFirstMessageOfAProbeCloses(t *testing.T) {
	t.Parallel()
	everywhere(t, change{}, func(t *testing.T, g *rig) {
		g.server.says(codes.Internal)
		g.calls(2, codes.Internal)
		g.advance(30 * time.Second)
		more := make(chan struct{})
		g.server.streams(func(s grpc.ServerStream) error {
			if err := s.SendMsg(wrapperspb.String("first")); err != nil {
				return err
			}
			<-more
			return status.Error(codes.Internal, "")
		})
		stream := g.open(t.Context())
		g.wants(counts{State: "half_open"})
		if err := stream.RecvMsg(answer()); err != nil {
			t.Fatal(err)
		}
		g.wants(counts{State: "closed"})
		close(more)
		if _, err := drain(t, stream); status.Code(err) != codes.Internal {
			t.Errorf("end: %v", err)
		}
		g.wants(counts{"closed", 1, 1, 0})
	})
}

// A probe that is dropped without being read gives its slot back with its
// context, so that the next call finds out.
func TestADroppedProbeReturnsItsSlot(t *testing.T) {
	t.Parallel()
	everywhere(t, change{}, func(t *testing.T, g *rig) {
		g.server.says(codes.Internal)
		g.calls(2, codes.Internal)
		g.advance(30 * time.Second)
		g.server.streams(func(s grpc.ServerStream) error {
			<-s.Context().Done()
			return nil
		})
		ctx, leave := context.WithCancel(t.Context())
		g.open(ctx)
		g.calls(1, codes.Unavailable) // the only slot is taken
		leave()
		g.awaits(counts{State: "half_open", Neutral: 1})
		g.server.says(codes.OK)
		g.calls(1, codes.OK)
		g.wants(counts{State: "closed", Neutral: 1})
	})
}

// A probe that is dropped for good loses its lease (R11, T16).
func TestAForgottenProbeLosesItsLease(t *testing.T) {
	t.Parallel()
	g := setup(t, nil, breaker.Local, change{})
	g.server.says(codes.Internal)
	g.calls(2, codes.Internal)
	g.advance(30 * time.Second)
	g.server.streams(func(s grpc.ServerStream) error {
		<-s.Context().Done()
		return nil
	})
	g.open(t.Context())
	g.advance(3 * time.Minute)
	g.calls(1, codes.Unavailable)
	if s, _ := g.circuits.Circuit(g.key); s.State != breaker.Open || s.LeaseExpired != 1 {
		t.Errorf("circuit: %v after %d lost leases, want open after 1", s.State, s.LeaseExpired)
	}
}

// The answer to a stream of requests is its end.
func TestAStreamOfRequests(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		serve func(grpc.ServerStream) error
		want  counts
	}{
		"answered": {func(s grpc.ServerStream) error {
			for s.RecvMsg(answer()) == nil {
			}
			return s.SendMsg(wrapperspb.String("all"))
		}, counts{"closed", 1, 0, 0}},
		"broken off": {func(grpc.ServerStream) error { return status.Error(codes.Unavailable, "") }, counts{"closed", 1, 1, 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, nil, breaker.Local, change{})
			g.server.streams(tt.serve)
			stream, err := g.conn.NewStream(t.Context(), upstream, streamMethod)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				_ = stream.SendMsg(request) // io.EOF once the server has broken off
			}
			_ = stream.CloseSend()
			_ = stream.RecvMsg(answer())
			g.wants(tt.want)
		})
	}
}

// What the client itself cannot send says nothing good or bad that the code does
// not say; the permit comes back.
func TestARequestThatCannotBeSentEndsTheStream(t *testing.T) {
	t.Parallel()
	g := setup(t, nil, breaker.Local, change{})
	g.server.streams(func(s grpc.ServerStream) error {
		<-s.Context().Done()
		return nil
	})
	stream, err := g.conn.NewStream(t.Context(), bothWays, streamMethod)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg("no message"); status.Code(err) != codes.Internal {
		t.Fatalf("send: got %v, want Internal", err)
	}
	g.wants(counts{"closed", 1, 1, 0})
}

func TestAStreamThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	g := setup(t, nil, breaker.Local, change{})
	g.server.Stop()
	for range 2 {
		stream, err := g.conn.NewStream(t.Context(), downstream, streamMethod)
		if err == nil { // the connection broke a moment later
			_, err = drain(t, stream)
		}
		if status.Code(err) != codes.Unavailable {
			t.Errorf("open: got %v, want Unavailable", err)
		}
	}
	g.wants(counts{"open", 2, 2, 0})
	_, err := g.conn.NewStream(t.Context(), downstream, streamMethod)
	var refusal *breaker.Refusal
	if !errors.As(err, &refusal) || status.Code(err) != codes.Unavailable {
		t.Errorf("open behind an open circuit: got %v, want its refusal", err)
	}
}

// R13: a panic while a stream is opened counts and goes on; the end of the
// goroutine is neutral.
func TestAStreamWhoseOpeningDoesNotReturn(t *testing.T) {
	t.Parallel()
	g := setup(t, nil, breaker.Local, change{})
	guard := grpcbreaker.New(grpcbreaker.Config{Circuits: g.circuits, Key: func(context.Context, string) string { return g.key }})
	panicking := func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
		panic("boom")
	}
	got := func() (v any) {
		defer func() { v = recover() }()
		_, _ = guard.Stream(t.Context(), downstream, g.conn, streamMethod, panicking)
		return nil
	}()
	if got != "boom" {
		t.Errorf("the panic went on as %v", got)
	}
	g.wants(counts{"closed", 1, 1, 0})
}

// Reading, sending and leaving come from three goroutines.
func TestAStreamUnderWayFromAllSides(t *testing.T) {
	t.Parallel()
	g := setup(t, nil, breaker.Local, change{})
	g.server.streams(func(s grpc.ServerStream) error {
		for {
			m := answer()
			if err := s.RecvMsg(m); err != nil {
				return err
			}
			if err := s.SendMsg(m); err != nil {
				return err
			}
		}
	})
	const streams = 20
	var all sync.WaitGroup
	for range streams {
		all.Go(func() {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			stream, err := g.conn.NewStream(ctx, bothWays, streamMethod)
			if err != nil {
				t.Error(err)
				return
			}
			var sender sync.WaitGroup
			sender.Go(func() {
				for stream.SendMsg(request) == nil {
				}
			})
			for range 10 {
				if err := stream.RecvMsg(answer()); err != nil {
					t.Error(err)
				}
			}
			leave()
			_, _ = drain(t, stream)
			sender.Wait()
		})
	}
	all.Wait()
	g.awaits(counts{"closed", 0, 0, streams})
}
