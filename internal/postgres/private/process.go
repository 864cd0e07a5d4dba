package private

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// hardStop is how long a server may take to end after an immediate shutdown
// before it is killed.
const hardStop = 5 * time.Second

// process is the running server, seen from its owner.
type process struct {
	cmd      *exec.Cmd
	log      *serverLog
	stopping atomic.Bool
	done     chan struct{} // closed when the server has ended
	err      error         // how it ended; valid once done is closed
}

func launch(cfg Config, d door, p place, sockets string) (*process, error) {
	// The server's life is not bound to the context that bounds its start.
	cmd, done, err := d.command(context.Background(), "postgres", p.cluster(), serverArgs(cfg, p, sockets)...)
	if err != nil {
		return nil, err
	}
	defer done()
	cmd.WaitDelay = hardStop // a session that outlives its server keeps the pipe open
	s := &process{cmd: cmd, log: &serverLog{log: cfg.Log}, done: make(chan struct{})}
	cmd.Stderr = s.log

	started := make(chan error)
	go s.watch(cfg, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the private database: %w", err)
	}
	return s, nil
}

func serverArgs(cfg Config, p place, sockets string) []string {
	args := []string{
		"-k", sockets, "-p", "5432", "-c", "listen_addresses=", "-c", "unix_socket_permissions=0700",
		"-c", "cluster_name=" + p.mark(), "-c", "logging_collector=off", "-c", "log_destination=stderr",
	}
	if cfg.Volatile {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	return args
}

// watch keeps its thread for as long as the server lives, because the server
// is told of the death of the thread that started it, not of the process.
func (s *process) watch(cfg Config, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := s.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	s.err = s.cmd.Wait()
	if !s.stopping.Load() {
		cfg.Log.Error("private database ended by itself", "error", s.err, "last_line", s.log.last())
	}
	close(s.done)
}

func (s *process) pid() int { return s.cmd.Process.Pid }

// stop ends the server, gently while the context lasts. The server's own exit
// code is of no interest once it was asked to go.
func (s *process) stop(ctx context.Context) error {
	s.stopping.Store(true)
	s.signal(fastShutdown)
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
	}
	s.signal(immediateShutdown)
	select {
	case <-s.done:
	case <-time.After(hardStop):
		s.signal(syscall.SIGKILL)
		<-s.done
	}
	return fmt.Errorf("stop the private database: %w", ctx.Err())
}

// signal does nothing to a server that has ended: os.Process knows.
func (s *process) signal(sig os.Signal) { s.cmd.Process.Signal(sig) }

// awaitReady returns when the server's database answers.
func awaitReady(ctx context.Context, p place, s *process, url string) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if file, err := readPidFile(p); err == nil && file.ready && file.pid == s.pid() {
			return ensureDatabase(ctx, url)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the private database: %w", ctx.Err())
		case <-s.done:
			return fmt.Errorf("the private database did not start: %s", s.log.last())
		case <-tick.C:
		}
	}
}

const undefinedDatabase = "3D000"

// ensureDatabase connects, and makes the database where there is none yet.
func ensureDatabase(ctx context.Context, url string) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("read the private database's address: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err == nil {
		return conn.Close(ctx)
	}
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != undefinedDatabase {
		return fmt.Errorf("connect to the private database: %w", err)
	}
	cfg.Database = "postgres"
	if conn, err = pgx.ConnectConfig(ctx, cfg); err != nil {
		return fmt.Errorf("connect to the private database: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+owner); err != nil {
		return fmt.Errorf("create the database %s: %w", owner, err)
	}
	return nil
}

// run runs a short command to its end on a thread that stays, since the
// command is bound to it.
func run(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Run()
}
