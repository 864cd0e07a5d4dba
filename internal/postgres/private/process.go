package private

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// hardStop is how long a server may take to end after an immediate shutdown
// before it is killed.
const hardStop = 5 * time.Second

// process is the running server, seen from its owner.
type process struct {
	cmd  *exec.Cmd
	log  *serverLog
	done chan struct{} // closed when the server has ended
	err  error         // how, once done is closed
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
	s := &process{cmd: cmd, log: &serverLog{log: cfg.Log}, done: make(chan struct{})}
	cmd.Stderr = s.log

	started := make(chan error)
	go s.watch(started)
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

// stop ends the server, gently while the context lasts. The server's own exit
// code is of no interest once it was asked to go.
func (s *process) stop(ctx context.Context) error {
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

// run runs a short command to its end on a thread that stays, since the
// command is bound to it.
func run(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Run()
}
