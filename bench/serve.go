package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/breakwater-llm/breakwater/bench/rig"
)

// serve answers on a free loopback port, says which, and ends with its parent,
// whose end closes standard input.
func serve(ctx context.Context, handler http.Handler) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler}
	go func() {
		orphaned(ctx)
		_ = server.Close() // nothing in flight is of interest any more
	}()
	slog.New(slog.NewJSONHandler(os.Stderr, nil)).Info(rig.Listening, "listen", listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// orphaned returns when ctx or the parent has ended.
func orphaned(ctx context.Context) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	select {
	case <-ctx.Done():
	case <-gone:
	}
}
