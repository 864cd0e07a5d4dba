package private

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"
)

// whose tells what a process id in a pid file stands for.
type whose uint8

const (
	nobodys whose = iota // no such process, or a zombie
	ours                 // the server of this data directory
	foreign              // another program that got the number since
	unclear              // a Postgres server, but perhaps of another directory
)

const poll = 20 * time.Millisecond

// endOrphan clears the way for a new server. Its caller holds the lock, so a
// server that still runs has lost its owner: it is shut down. A pid file that
// names another process, or one that is dead but not yet buried, is removed:
// Postgres would take either for a running server.
func endOrphan(ctx context.Context, p place, log *slog.Logger) error {
	file, err := readPidFile(p)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	switch identify(file.pid, p) {
	case ours:
		log.Warn("stopping a private database whose owner is gone", "data_dir", p.root, "pid", file.pid)
		return endProcess(ctx, file.pid, p)
	case foreign, nobodys:
		log.Warn("removing a stale pid file", "path", p.pidFile(), "pid", file.pid)
		return os.Remove(p.pidFile())
	default:
		return fmt.Errorf("%s names process %d, which may be a server on this data: stop it, or remove the file", p.pidFile(), file.pid)
	}
}

// endProcess waits until the server is gone: one that is already shutting
// down takes the signal as well.
func endProcess(ctx context.Context, pid int, p place) error {
	if err := syscall.Kill(pid, fastShutdown); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop the orphaned server %d: %w", pid, err)
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for identify(pid, p) == ours {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the orphaned server %d to end: %w", pid, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

func alive(pid int) bool {
	return pid > 0 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
