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
	"strconv"
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
// whatever still runs on this data has lost its owner and is shut down. A server
// that somebody started by hand is not, and nothing is ended beside it.
func endOrphans(ctx context.Context, acc account, p place, log *slog.Logger) error {
	orphans, err := marked(acc, p)
	if err != nil {
		return err
	}
	if len(orphans) > 0 {
		if err := refuseForeign(p, orphans); err != nil {
			return err
		}
		log.Warn("stopping what is left of an earlier private database", "data_dir", p.root, "pid", orphans[0].pid)
		if err := end(ctx, acc, p, escalation); err != nil {
			return err
		}
	}
	return removeStalePidFile(p, log)
}

// refuseForeign returns an error when the data is that of a server which is not
// among ours.
func refuseForeign(p place, ours []running) error {
	file, err := readPidFile(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(ours, func(r running) bool { return r.pid == file.pid }) {
		return nil
	}
	return mustBeStale(p, file)
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

// measure is what is done to a server, or to its sessions when only they are
// left, and how long that may take.
type measure struct {
	server, session syscall.Signal
	patience        time.Duration
}

// escalation ends what can be ended. A server may take its time to write
// everything down; sessions without one have nothing to write. Killed, either
// costs the next start a recovery and the data nothing.
var escalation = []measure{
	{fastShutdown, syscall.SIGTERM, 3 * time.Second},
	{fastShutdown, syscall.SIGKILL, 7 * time.Second},
	{immediateShutdown, syscall.SIGKILL, hardStop},
	{syscall.SIGKILL, syscall.SIGKILL, hardStop},
}

// end takes one measure after the other until nothing is left. Returns an error
// that says what is, and what to do, when the last was in vain.
func end(ctx context.Context, acc account, p place, measures []measure) error {
	var left []running
	for _, m := range measures {
		var err error
		if left, err = take(ctx, m, acc, p); err != nil || len(left) == 0 {
			return err
		}
	}
	pids := make([]string, len(left))
	for n, r := range left {
		pids[n] = strconv.Itoa(r.pid)
	}
	return fmt.Errorf("processes of an earlier private database in %s do not end, not even when they are killed: %s; they may hang on a disk that does not answer: mend that, or restart the machine, and start again", p.root, strings.Join(pids, ", "))
}

// take takes a measure and returns what is left when its time is over.
func take(ctx context.Context, m measure, acc account, p place) ([]running, error) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	over := time.NewTimer(m.patience)
	defer over.Stop()
	for told := false; ; told = true {
		left, err := marked(acc, p)
		if err != nil || len(left) == 0 {
			return nil, err
		}
		if !told {
			if err := m.tell(left); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the orphaned server %d to end: %w", left[0].pid, ctx.Err())
		case <-over.C:
			return left, nil
		case <-tick.C:
		}
	}
}

// tell signals the server, which sees to its sessions, or its sessions when there
// is none. One that is killed sees to nothing.
func (m measure) tell(left []running) error {
	hasServer := slices.ContainsFunc(left, running.isServer)
	for _, r := range left {
		sig := m.session
		switch {
		case r.isServer():
			sig = m.server
		case hasServer && m.server != syscall.SIGKILL:
			continue
		}
		if err := syscall.Kill(r.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop the orphaned process %d: %w", r.pid, err)
		}
	}
	return nil
}

// endSessions kills what a server that is dead, or about to be, has left behind:
// sessions that are frozen or compute do not notice its end. Its caller owns the
// server. Beside any other server it kills nothing.
func endSessions(acc account, p place, server int) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	over := time.NewTimer(hardStop)
	defer over.Stop()
	for {
		left, err := marked(acc, p)
		if err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(r running) bool { return r.pid == server })
		if len(left) == 0 {
			return nil
		}
		if !slices.ContainsFunc(left, running.isServer) {
			for _, r := range left {
				_ = syscall.Kill(r.pid, syscall.SIGKILL) // it shows in the next look
			}
		}
		select {
		case <-over.C:
			return fmt.Errorf("%d processes of the private database do not end, one of them is %d", len(left), left[0].pid)
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
	if err := mustBeStale(p, file); err != nil {
		return err
	}
	log.Warn("removing a stale pid file", "path", p.pidFile(), "pid", file.pid)
	if err := os.Remove(p.pidFile()); err != nil {
		return fmt.Errorf("remove a stale pid file: %w", err)
	}
	return nil
}

// mustBeStale returns an error when the process that a pid file names may be a
// server on this data.
func mustBeStale(p place, file pidFile) error {
	all, err := processes()
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.pid == file.pid && mayServe(r, p) {
			return fmt.Errorf("%s names process %d, which may be a server on this data: stop it, or remove the file", p.pidFile(), r.pid)
		}
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
