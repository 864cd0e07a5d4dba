// Package contextasm asks a context assembler, which is a gRPC service of the
// operator's own, what a model should know before it answers. It sends as little
// of a call as the question needs, waits for as long as it may, and asks behind a
// circuit. The room must not know what becomes of the answer: that a call goes on
// without one is the pipeline's rule.
package contextasm

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/breaker/grpcbreaker"
	"github.com/breakwater-llm/breakwater/internal/contextasm/contextpb"
)

const (
	// The circuit decides when a server that was away is asked again. So that its
	// probe meets a server and not a wait for the next dial, that wait is short.
	redialFirst = 100 * time.Millisecond
	redialLast  = time.Second
	dialTimeout = 5 * time.Second
	// Servers refuse pings that come more often than every five minutes unless
	// told otherwise. What matters more is unanswered: bytes that nobody
	// acknowledges for pingTimeout end the connection.
	pingAfter   = 6 * time.Minute
	pingTimeout = 10 * time.Second
	// maxAnswer is what an answer may have in bytes, well above the largest
	// max_tokens.
	maxAnswer = 1 << 20
)

// Config is what a connection to an assembler needs.
type Config struct {
	Address  string            // host:port
	TLS      *tls.Config       // nil = none is spoken
	Dialer   *net.Dialer       // nil = a plain one
	Circuits *breaker.Registry // those of the sources are among them
}

// Client is the connection to one assembler. All configurations that name the
// same one share it.
type Client struct {
	service contextpb.ContextAssemblerClient
	close   func() error // once
}

// Dial returns a client and begins to connect. A server that is away is no error:
// it is met when it is asked. Returns an error for an address that is none.
func Dial(cfg Config) (*Client, error) {
	dialer := cfg.Dialer
	if dialer == nil {
		dialer = new(net.Dialer)
	}
	secured := insecure.NewCredentials()
	if cfg.TLS != nil {
		secured = credentials.NewTLS(cfg.TLS)
	}
	guard := grpcbreaker.New(grpcbreaker.Config{Circuits: cfg.Circuits, Key: circuitOf, SlowAfter: slowAfter})
	conn, err := grpc.NewClient(cfg.Address, append(guard.DialOptions(),
		grpc.WithTransportCredentials(secured),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: redialFirst, Multiplier: 2, Jitter: 0.2, MaxDelay: redialLast},
			MinConnectTimeout: dialTimeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WithIdleTimeout(0),         // the first call after a quiet night waits no longer than others
		grpc.WithDisableServiceConfig(), // how it is called is not the name server's to say
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithUserAgent("breakwater"),
	)...)
	if err != nil {
		return nil, fmt.Errorf("dial the context assembler at %s: %w", cfg.Address, err)
	}
	conn.Connect()
	return &Client{service: contextpb.NewContextAssemblerClient(conn), close: sync.OnceValue(conn.Close)}, nil
}

// Close ends the connection. Questions under way fail. It may be called again.
func (c *Client) Close() error { return c.close() }
