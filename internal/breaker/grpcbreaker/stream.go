package grpcbreaker

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// Stream is a grpc.StreamClientInterceptor. The permit of a stream lasts until
// its end: that of the messages, an error, or that of its context, whichever
// comes first. One that is neither read to its end nor cancelled is what gRPC
// itself calls a leak; if it was a probe, its lease runs out.
func (i *Interceptors) Stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	key := i.cfg.Key(ctx, method)
	if key == "" {
		return open(ctx, desc, conn, method, options...)
	}
	s := &stream{guard: i, ctx: ctx, many: desc.ServerStreams, begun: time.Now()}
	if err := i.cfg.Circuits.Acquire(key, &s.permit); err != nil {
		return nil, refused(err)
	}
	i.tell(ctx, method, &s.permit)
	if err := s.open(func() (grpc.ClientStream, error) { return open(ctx, desc, conn, method, options...) }); err != nil {
		return nil, err
	}
	s.unwatch = context.AfterFunc(ctx, func() { s.end(status.FromContextError(ctx.Err()).Err()) })
	return s, nil
}

// stream is a stream under a permit.
type stream struct {
	grpc.ClientStream
	guard   *Interceptors
	ctx     context.Context // of the call: what ends it decides what the end means
	many    bool            // more than one message may come
	begun   time.Time
	unwatch func() bool

	mu     sync.Mutex // messages and the end of the context come from different goroutines
	permit breaker.Permit
	told   bool // of the first message
	ended  bool
}

// open begins the stream. A panic on the way is a failure and goes on, and the
// end of the goroutine is neutral (R13).
func (s *stream) open(begin func() (grpc.ClientStream, error)) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			s.settle(breaker.Outcome{Kind: breaker.Failure, Cause: breaker.CausePanic})
			panic(v)
		}
		s.settle(breaker.Outcome{Kind: breaker.Neutral})
	}()
	s.ClientStream, err = begin()
	returned = true
	if err != nil {
		s.end(err)
	}
	return err
}

// Header waits for the header of the answer.
func (s *stream) Header() (header metadata.MD, err error) {
	header, err = s.ClientStream.Header()
	if err != nil {
		s.finish(err)
	}
	return header, err
}

// SendMsg sends a message. io.EOF means that the stream has ended, and only
// RecvMsg says how.
func (s *stream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	if err != nil && !errors.Is(err, io.EOF) {
		s.finish(err)
	}
	return err
}

// RecvMsg waits for a message or the end.
func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case errors.Is(err, io.EOF), err == nil && !s.many:
		s.finish(nil)
	case err != nil:
		s.finish(err)
	default:
		s.first()
	}
	return err
}

// first takes the first message as the answer that was waited for (R18).
func (s *stream) first() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.told && !s.ended {
		s.permit.FirstToken()
	}
	s.told = true
}

// finish is the end that the reader has seen.
func (s *stream) finish(err error) {
	s.unwatch()
	s.end(err)
}

func (s *stream) end(err error) { s.settle(s.guard.outcome(s.ctx, err, s.begun)) }

// settle gives the permit back, once.
func (s *stream) settle(o breaker.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		s.permit.Done(o)
	}
}
