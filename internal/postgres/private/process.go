package private

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// hardStop is how long a server may take to end after an immediate shutdown
// before it is killed, and then to be gone.
const hardStop = 2 * time.Second

// process is the running server, seen from its owner.
type process struct {
	cmd     *exec.Cmd
	account account
	place   place
	log     *serverLog
	done    chan struct{} // closed when the server has ended
	err     error         // how, once done is closed
}

// launch starts the server, which then is not ready yet.
func launch(cfg Config, d door, p place, sockets string) (*process, error) {
	// The server's life is not bound to the context that bounds its start.
	cmd, done, err := d.command(context.Background(), "postgres", p.cluster(), serverArgs(cfg, p, sockets)...)
	if err != nil {
		return nil, err
	}
	defer done()
	cmd.WaitDelay = hardStop // a session that outlives its server keeps the pipe open
	s := &process{cmd: cmd, account: d.account, place: p, log: &serverLog{log: cfg.Log}, done: make(chan struct{})}
	cmd.Stderr = s.log

	started := make(chan error)
	go s.watch(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the private database: %w", err)
	}
	return s, nil
}

// volatile is what a server does without whose data nobody will miss.
var volatile = []string{
	"fsync=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0",
	"checkpoint_timeout=1d", "max_wal_size=2GB", "autovacuum=off", "jit=off",
}

func serverArgs(cfg Config, p place, sockets string) []string {
	args := []string{
		"-k", sockets, "-p", "5432", "-c", "listen_addresses=", "-c", "unix_socket_permissions=0700",
		"-c", "cluster_name=" + p.mark(), "-c", "logging_collector=off", "-c", "log_destination=stderr",
	}
	if cfg.Volatile {
		for _, setting := range volatile {
			args = append(args, "-c", setting)
		}
	}
	return args
}

// watch keeps its thread for as long as the server lives, because the server
// is told of the death of the thread that started it, not of the process.
func (s *process) watch(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := s.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	s.err = s.cmd.Wait()
	close(s.done)
}

func (s *process) pid() int { return s.cmd.Process.Pid }

// stop ends the server, gently while the context lasts, and what it may have left
// behind. The server's own exit code is of no interest once it was asked to go.
func (s *process) stop(ctx context.Context) error {
	s.signal(fastShutdown)
	select {
	case <-s.done:
		return s.endSessions()
	case <-ctx.Done():
	}
	s.signal(immediateShutdown)
	if !s.endsWithin(hardStop) {
		s.signal(syscall.SIGKILL)
	}
	left := s.endSessions()
	if !s.endsWithin(hardStop) {
		left = errors.Join(left, fmt.Errorf("its server %d does not end, not even when it is killed", s.pid()))
	}
	return errors.Join(fmt.Errorf("stop the private database: %w", ctx.Err()), left)
}

// endSessions kills the sessions that have outlived the server.
func (s *process) endSessions() error {
	if err := endSessions(s.account, s.place, s.pid()); err != nil {
		return fmt.Errorf("stop what is left of the private database: %w", err)
	}
	return nil
}

func (s *process) endsWithin(patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-s.done:
		return true
	case <-timer.C:
		return false
	}
}

// signal does nothing to a server that has ended: os.Process knows.
func (s *process) signal(sig os.Signal) { s.cmd.Process.Signal(sig) }

// run runs a short command to its end on a thread that stays, since the
// command is bound to it.
func run(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Run()
}
