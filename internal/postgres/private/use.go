package private

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const patience = time.Minute

// Use gives a command the server of a data directory: the one that a running
// gateway owns, else one that it starts and that Stop ends. A gateway that is
// just starting or stopping gets a minute to come to an end with that. With
// cfg.Existing it returns ErrNoDatabase, and leaves no trace, where there is none.
func Use(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Existing {
		if err := findPlace(cfg.DataDir); err != nil {
			return nil, err
		}
	}
	end := time.NewTimer(patience)
	defer end.Stop()
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
			return nil, fmt.Errorf("wait for the private database: %w", ctx.Err())
		case <-end.C:
			return nil, fmt.Errorf("the private database does not answer: %w", err)
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
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, false
	}
	return &Server{url: url}, conn.Close(ctx) == nil
}
