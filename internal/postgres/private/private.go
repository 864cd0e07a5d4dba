// Package private runs the gateway's own Postgres server, so that a fresh
// machine needs nothing but the Postgres binaries. The server listens on one
// Unix socket in a directory that nobody else may enter, belongs to one owner
// at a time, is started again when it was killed, and ends with its owner, even
// with one that was killed. The package
// knows nothing of the gateway's schema or of who connects.
package private

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"
)

// ErrInUse is in the error of Start when another process owns the server of
// this data directory.
var ErrInUse = errors.New("the private database is in use")

// ErrNoDatabase is in the error of Use when nothing is to be made and there is no
// database in the data directory.
var ErrNoDatabase = errors.New("there is no private database")

// Config says where the server lives.
type Config struct {
	// DataDir holds the server's files in the subdirectory postgres; it is
	// made when missing. Started by root, the server itself runs as the user
	// postgres, else nobody, who need not be able to walk to DataDir (on
	// systems other than Linux they must).
	DataDir string
	// Existing is for those who only look at what is there: where there is no
	// database none is made.
	Existing bool
	// Volatile gives up durability for speed: a crash of the machine may
	// destroy the data. For tests.
	Volatile bool
	// Log gets lifecycle lines, and the server's own at level debug.
	Log *slog.Logger
}

// Server is a private server that can be used until Stop.
type Server struct {
	url     string
	keeper  *keeper // nil when another process owns the server
	lock    *lock
	sockets string

	stopping sync.Once
	stopped  error
}

// Start starts the server of a data directory, which it first creates if there
// is none, and returns when it answers. Should it end by itself, it is started
// again. What an earlier owner that was killed
// has left behind is cleared away. The context bounds the start, not the
// server's life. It returns ErrInUse if another process owns the server.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	p, err := openPlace(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	lock, err := acquire(p.lockFile())
	if err != nil {
		return nil, err
	}
	server, err := start(ctx, cfg, p)
	if err != nil {
		lock.release()
		return nil, err
	}
	server.lock = lock
	return server, nil
}

// start is the whole order of a start; its caller holds the lock.
func start(ctx context.Context, cfg Config, p place) (*Server, error) {
	acc, err := accountFor(p)
	if err != nil {
		return nil, err
	}
	install, err := findInstall(ctx, p)
	if err != nil {
		return nil, err
	}
	door, err := openDoor(ctx, install, acc, p)
	if err != nil {
		return nil, err
	}
	if err := endOrphans(ctx, acc, p, cfg.Log); err != nil {
		return nil, err
	}
	if _, err := os.Stat(p.cluster()); cfg.Existing && errors.Is(err, fs.ErrNotExist) {
		return nil, p.empty()
	}
	if err := ensureCluster(ctx, cfg, door, p); err != nil {
		return nil, err
	}
	sockets, err := makeSocketDir(ctx, door, p)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	process, err := launchReady(ctx, cfg, door, p, sockets)
	if err != nil {
		return nil, err
	}
	cfg.Log.Info("private database started", "data_dir", p.root, "pid", process.pid(), "took", time.Since(began))
	return &Server{url: socketURL(sockets), keeper: keep(cfg, door, p, sockets, process), sockets: sockets}, nil
}

// URL is where the server's database answers: for this user and root only.
func (s *Server) URL() string { return s.url }

// Owned tells whether this process started the server and Stop will end it.
func (s *Server) Owned() bool { return s.keeper != nil }

// Stop ends the server if this process owns it: sessions are cut, data is
// written. When the context ends first the server is stopped the hard way,
// which costs it a recovery at the next start, and the context's error is
// returned. Stop may be called twice; a second call leaves alone what another
// owner may have started since.
func (s *Server) Stop(ctx context.Context) error {
	if s.keeper == nil {
		return nil
	}
	s.stopping.Do(func() {
		s.keeper.release()
		s.stopped = s.keeper.current().stop(ctx)
		removeSocketDir(s.sockets)
		s.lock.release()
	})
	return s.stopped
}

// The signals of a Postgres server: fast shutdown cuts sessions and writes
// everything; immediate shutdown leaves a recovery to the next start.
const (
	fastShutdown      = syscall.SIGINT
	immediateShutdown = syscall.SIGQUIT
)
