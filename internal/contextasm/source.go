package contextasm

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/metadata"

	"github.com/breakwater-llm/breakwater/internal/breaker/grpcbreaker"
	"github.com/breakwater-llm/breakwater/internal/contextasm/contextpb"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// maxQuery is how many bytes of a text are sent.
const maxQuery = 32 << 10

// Ask is how a configuration asks its assembler.
type Ask struct {
	Configuration string
	Circuit       string        // the key of the circuit that the questions stand behind
	Timeout       time.Duration // how long an answer may take
	SlowAfter     time.Duration // when it is slow, where the circuit wants to know; 0 = never
	MaxTokens     int           // what the answer may have
}

// Source is an assembler as one configuration asks it.
type Source struct {
	client *Client
	ask    Ask
}

// Source returns the assembler as a configuration asks it.
func (c *Client) Source(ask Ask) *Source { return &Source{client: c, ask: ask} }

// Assemble returns the texts that the assembler has for a call whose user says
// text. Of the call itself only the correlation id and the trace go out. The
// error is that of gRPC: a *grpcbreaker.Refused while the circuit is open.
func (s *Source) Assemble(ctx context.Context, call *llm.Call, text string) ([]string, error) {
	ctx, cancel := grpcbreaker.WithTimeout(context.WithValue(ctx, asking{}, s), s.ask.Timeout)
	defer cancel()
	if call.Traceparent != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", call.Traceparent)
	}
	answer, err := s.client.service.Assemble(ctx, &contextpb.AssembleRequest{
		Configuration: s.ask.Configuration,
		CorrelationId: call.CorrelationID,
		Query:         beginning(text),
		MaxTokens:     uint32(s.ask.MaxTokens),
	})
	if err != nil {
		return nil, fmt.Errorf("ask the context assembler of %s: %w", s.ask.Configuration, err)
	}
	texts := make([]string, len(answer.GetMessages()))
	for i, m := range answer.GetMessages() {
		texts[i] = m.GetText()
	}
	return texts, nil
}

// beginning is as much of a text as is sent, in whole characters.
func beginning(text string) string {
	if len(text) <= maxQuery {
		return text
	}
	end := maxQuery
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// asking is the key of the source whose question a call is: interceptors know
// nothing but the context.
type asking struct{}

func circuitOf(ctx context.Context, _ string) string {
	if s, ok := ctx.Value(asking{}).(*Source); ok {
		return s.ask.Circuit
	}
	return ""
}

func slowAfter(ctx context.Context, _ string) time.Duration {
	if s, ok := ctx.Value(asking{}).(*Source); ok {
		return s.ask.SlowAfter
	}
	return 0
}
