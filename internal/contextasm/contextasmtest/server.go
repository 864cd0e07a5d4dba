// Package contextasmtest gives a test a context assembler: a real gRPC server on
// a loopback port that says what the test wants, and the means to take it away.
package contextasmtest

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/breakwater-llm/breakwater/internal/contextasm/contextpb"
	"github.com/breakwater-llm/breakwater/internal/porttest"
)

// Answer is what a server does with a request.
type Answer func(ctx context.Context) ([]string, error)

// Knows answers with texts.
func Knows(texts ...string) Answer {
	return func(context.Context) ([]string, error) { return texts, nil }
}

// Fails answers with an error.
func Fails(err error) Answer { return func(context.Context) ([]string, error) { return nil, err } }

// Hangs answers when its caller has given up.
func Hangs(ctx context.Context) ([]string, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Server is a context assembler.
type Server struct {
	contextpb.UnimplementedContextAssemblerServer

	Address string

	t       testing.TB
	options []grpc.ServerOption

	mu      sync.Mutex
	answer  Answer
	asked   []*contextpb.AssembleRequest
	headers []metadata.MD
	running *grpc.Server
	ended   chan struct{}
}

// Start starts a server that knows nothing, until the test ends.
func Start(t testing.TB, options ...grpc.ServerOption) *Server {
	t.Helper()
	s := &Server{t: t, Address: porttest.Hold(t), options: options, answer: Knows()}
	s.listen()
	t.Cleanup(s.Stop)
	return s
}

func (s *Server) listen() {
	s.t.Helper()
	listener, err := net.Listen("tcp", s.Address)
	if err != nil {
		s.t.Fatal(err)
	}
	server, ended := grpc.NewServer(s.options...), make(chan struct{})
	contextpb.RegisterContextAssemblerServer(server, s)
	s.mu.Lock()
	s.running, s.ended = server, ended
	s.mu.Unlock()
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
}

// Stop takes the server away, at once. It may be called again.
func (s *Server) Stop() {
	s.mu.Lock()
	server, ended := s.running, s.ended
	s.mu.Unlock()
	server.Stop()
	<-ended
}

// Restart brings a stopped server back to its address.
func (s *Server) Restart() {
	s.t.Helper()
	s.listen()
}

// Answers sets what the server does from now on.
func (s *Server) Answers(a Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = a
}

// Asked returns the requests so far.
func (s *Server) Asked() []*contextpb.AssembleRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*contextpb.AssembleRequest(nil), s.asked...)
}

// Headers returns the metadata that came with each request.
func (s *Server) Headers() []metadata.MD {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]metadata.MD(nil), s.headers...)
}

// Assemble serves a request.
func (s *Server) Assemble(ctx context.Context, request *contextpb.AssembleRequest) (*contextpb.AssembleResponse, error) {
	header, _ := metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	s.asked = append(s.asked, proto.CloneOf(request))
	s.headers = append(s.headers, header)
	answer := s.answer
	s.mu.Unlock()
	texts, err := answer(ctx)
	if err != nil {
		return nil, err
	}
	response := new(contextpb.AssembleResponse)
	for _, text := range texts {
		response.Messages = append(response.Messages, &contextpb.Message{Text: text})
	}
	return response, nil
}
