package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/postgres/private"
	"github.com/jackc/pgx/v5"
)

// template is the database that every test's is cloned from. It is made anew
// by each process, for the schema may have changed since the last.
const template = "template_migrated"

// server is the one server of this test process.
type server struct {
	private *private.Server
	mu      sync.Mutex // held while databases are made and dropped
	conn    *pgx.Conn  // on which they are; nil until the first
}

// shared is the one server of the test process. It is a global because the
// tests of a package have no owner but their process.
var shared struct {
	once   sync.Once
	server *server
	err    error
}

// get starts the server at its first call.
func get() (*server, error) {
	shared.once.Do(func() { shared.server, shared.err = start() })
	return shared.server, shared.err
}

// stop ends the server if it was started; none can be started after.
func stop() error {
	shared.once.Do(func() {})
	if shared.server == nil {
		return nil
	}
	return errors.Join(shared.server.hangUp(), shared.server.private.Stop(context.Background()))
}

// hangUp ends the maintenance connection.
func (s *server) hangUp() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return nil
	}
	return s.conn.Close(context.Background())
}

func start() (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	p, err := startInFreeSlot(ctx)
	if err != nil {
		return nil, err
	}
	s := &server{private: p}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.hangUp(), p.Stop(ctx))
	}
	return s, nil
}

// startInFreeSlot starts a server in the first directory that no other test
// process uses. The directories are kept and used again, so there are as many
// as test processes ever ran at once.
func startInFreeSlot(ctx context.Context) (*private.Server, error) {
	root, err := slots()
	if err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		dir := filepath.Join(root, strconv.Itoa(n))
		cfg := private.Config{DataDir: dir, Volatile: true, Log: slog.New(slog.DiscardHandler)}
		p, err := private.Start(ctx, cfg)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, private.ErrInUse) {
			return nil, fmt.Errorf("%w (kept between runs in %s, which may be removed)", err, dir)
		}
	}
}

// slots is where the servers of this user's tests live.
func slots() (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("breakwater-test-%d", os.Getuid()))
	if err := os.Mkdir(dir, 0o711); err != nil && !os.IsExist(err) {
		return "", fmt.Errorf("make the directory of test servers: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("look at the directory of test servers: %w", err)
	}
	if !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
		return "", fmt.Errorf("%s is not this user's directory: remove it", dir)
	}
	return dir, nil
}

// prepare clears away what a killed test process has left, and makes the
// template.
func (s *server) prepare(ctx context.Context) error {
	if err := s.dropLeftovers(ctx); err != nil {
		return err
	}
	if err := s.exec(ctx, "CREATE DATABASE "+template); err != nil {
		return err
	}
	if _, err := postgres.Migrate(ctx, s.url(template)); err != nil {
		return err
	}
	return nil
}

func (s *server) dropLeftovers(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(ctx)
	rows, _ := conn.Query(ctx, "SELECT datname FROM pg_database WHERE datname LIKE 'test\\_%' OR datname = $1", template)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list left-over databases: %w", err)
	}
	for _, name := range names {
		if _, err := conn.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			return fmt.Errorf("drop the left-over database %s: %w", name, err)
		}
	}
	return nil
}

// url is the connection string of one database of the server.
func (s *server) url(database string) string {
	u, err := url.Parse(s.private.URL())
	if err != nil {
		panic(err) // the private server made it
	}
	u.Path = "/" + database
	return u.String()
}
