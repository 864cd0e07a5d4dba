package apptest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/postgres/private"
)

// Postgres is a database server of a test's own, which it can kill and freeze.
type Postgres struct {
	URL string
	dir string
}

// NewPostgres starts a server without a schema; it stops with the test. When it
// is killed it comes back by itself.
func NewPostgres(t testing.TB) *Postgres {
	t.Helper()
	dir := DataDir(t)
	server, err := private.Start(t.Context(), private.Config{DataDir: dir, Volatile: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Errorf("stop the database server: %v", err)
		}
	})
	return &Postgres{URL: server.URL(), dir: dir}
}

// DataDir is a directory for a private server.
func DataDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// PostgresOf is the private server that a gateway has started on a data
// directory.
func PostgresOf(t testing.TB, dir string) *Postgres {
	t.Helper()
	p := &Postgres{dir: dir}
	p.URL = fmt.Sprintf("postgres://breakwater@/breakwater?host=%s&port=5432&sslmode=disable", p.pidFile(t)[4])
	return p
}

// pidFile is what the server says of itself, by line: first its process, fifth
// its socket's directory.
func (p *Postgres) pidFile(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "postgres", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}

// Kill ends the server as a machine without memory does.
func (p *Postgres) Kill(t testing.TB) {
	t.Helper()
	signal(t, p.pid(t), syscall.SIGKILL)
}

// Freeze stops the server and all its sessions where they are, until thaw.
func (p *Postgres) Freeze(t testing.TB) (thaw func()) {
	t.Helper()
	pid := p.pid(t)
	signal(t, pid, syscall.SIGSTOP)
	stopped := []int{pid}
	for _, child := range childrenOf(t, pid) {
		signal(t, child, syscall.SIGSTOP)
		stopped = append(stopped, child)
	}
	thawed := false
	thaw = func() {
		if thawed {
			return
		}
		thawed = true
		for _, pid := range stopped {
			_ = syscall.Kill(pid, syscall.SIGCONT) // it may have ended
		}
	}
	t.Cleanup(thaw)
	return thaw
}

func (p *Postgres) pid(t testing.TB) int {
	t.Helper()
	pid, err := strconv.Atoi(p.pidFile(t)[0])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func signal(t testing.TB, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
		t.Fatal(err)
	}
}

// childrenOf lists the processes that a process has started.
func childrenOf(t testing.TB, pid int) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip("this system does not list its processes in /proc")
	}
	var children []int
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		// The name in brackets may hold anything; behind it stand state and parent.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			children = append(children, child)
		}
	}
	return children
}
