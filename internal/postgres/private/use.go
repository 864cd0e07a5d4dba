package private

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const patience = time.Minute

// Use gives a command the server of a data directory: the one that a running
// gateway owns, else one that it starts and that Stop ends. A gateway that is
// just starting or stopping gets a minute to come to an end with that.
func Use(ctx context.Context, cfg Config) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		server, err := Start(ctx, cfg)
		if !errors.Is(err, ErrInUse) {
			return server, err
		}
		if server, ok := attach(ctx, cfg.DataDir); ok {
			return server, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w, and its server does not answer: %w", err, ctx.Err())
		case <-tick.C:
		}
	}
}

// attach finds the server by what it wrote itself: the owner may have chosen
// the socket's place under other circumstances than ours.
func attach(ctx context.Context, dataDir string) (*Server, bool) {
	p, err := openPlace(dataDir)
	if err != nil {
		return nil, false
	}
	file, err := readPidFile(p)
	if err != nil || !file.ready || file.sockets == "" {
		return nil, false
	}
	url := socketURL(file.sockets)
	return &Server{url: url}, ensureDatabase(ctx, url) == nil
}
