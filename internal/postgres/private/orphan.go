package private

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const poll = 20 * time.Millisecond

// running is a process of this machine. A server carries its place's mark in
// its own command line and, since that is its cluster's name, in its sessions'.
type running struct {
	pid     int
	uid     uint32
	command string
}

func (r running) program() string {
	name, _, _ := strings.Cut(r.command, " ")
	return filepath.Base(name)
}

// isServer tells a server from its sessions, which call themselves "postgres:
// …", and from other programs.
func (r running) isServer() bool { return r.program() == "postgres" || r.program() == "postmaster" }

// endOrphans clears the way for a new server. Its caller holds the lock, so
// whatever still runs on this data has lost its owner and is shut down.
func endOrphans(ctx context.Context, acc account, p place, log *slog.Logger) error {
	orphans, err := marked(acc, p)
	if err != nil {
		return err
	}
	if len(orphans) > 0 {
		log.Warn("stopping what is left of an earlier private database", "data_dir", p.root, "pid", orphans[0].pid)
		if err := end(ctx, orphans, acc, p); err != nil {
			return err
		}
	}
	return removeStalePidFile(p, log)
}

// marked lists the processes of this place's server and its sessions.
func marked(acc account, p place) ([]running, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r running) bool {
		return r.uid != acc.uid || !strings.HasPrefix(r.program(), "postgres") || !strings.Contains(r.command, p.mark())
	}), nil
}

// end asks the server to go, or its sessions when it was killed and only they
// are left, and waits until none is.
func end(ctx context.Context, orphans []running, acc account, p place) error {
	asked, sig := orphans, syscall.SIGTERM
	if at := slices.IndexFunc(orphans, running.isServer); at >= 0 {
		asked, sig = orphans[at:at+1], fastShutdown
	}
	for _, r := range asked {
		if err := syscall.Kill(r.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop the orphaned server %d: %w", r.pid, err)
		}
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		left, err := marked(acc, p)
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the orphaned server %d to end: %w", left[0].pid, ctx.Err())
		case <-tick.C:
		}
	}
}

// removeStalePidFile removes a pid file that names a foreign process, or one
// that is dead but not yet buried: Postgres would take either for a running
// server. It refuses when that process may be a server that somebody started
// on this data by hand.
func removeStalePidFile(p place, log *slog.Logger) error {
	file, err := readPidFile(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	all, err := processes()
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.pid == file.pid && mayServe(r, p) {
			return fmt.Errorf("%s names process %d, which may be a server on this data: stop it, or remove the file", p.pidFile(), r.pid)
		}
	}
	log.Warn("removing a stale pid file", "path", p.pidFile(), "pid", file.pid)
	if err := os.Remove(p.pidFile()); err != nil {
		return fmt.Errorf("remove a stale pid file: %w", err)
	}
	return nil
}

// mayServe is false for a server that names other data.
func mayServe(r running, p place) bool {
	if !r.isServer() {
		return false
	}
	_, dir, named := strings.Cut(r.command, " -D /")
	return !named || strings.HasPrefix("/"+dir+" ", p.cluster()+" ")
}
