package grpcbreaker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/breaker/grpcbreaker"
)

// One circuit for a whole server, and a time-out that is the server's own.
func Example() {
	circuits := breaker.New(breaker.Config{Settings: func(string) breaker.Settings { return settings() }})
	guard := grpcbreaker.New(grpcbreaker.Config{
		Circuits: circuits,
		Key:      func(context.Context, string) string { return "helper" },
	})
	conn, err := grpc.NewClient("127.0.0.1:1", append(guard.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()

	for range 3 {
		ctx, cancel := grpcbreaker.WithTimeout(context.Background(), 10*time.Second)
		err = conn.Invoke(ctx, unaryMethod, request, answer())
		cancel()
	}
	var refusal *breaker.Refusal
	if errors.As(err, &refusal) {
		fmt.Println(refusal)
	}
	// Output: circuit helper is open: retry after 30s
}
