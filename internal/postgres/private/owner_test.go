package private

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestServerEndsWithAnOwnerThatWasKilled(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	o := actor(t, "start", dir).begin(t)
	if o.Error != "" {
		t.Fatal(o.Error)
	}
	remember(t, o.URL)

	o.kill(t)

	awaitEnd(t, o.Pid)
	recall(t, startServer(t, config(dir)).URL())
}

func TestRestartRightAfterTheOwnerWasKilled(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	o := actor(t, "start", dir).begin(t)
	if o.Error != "" {
		t.Fatal(o.Error)
	}
	remember(t, o.URL)

	o.kill(t)

	recall(t, startServer(t, config(dir)).URL())
}

// orphan starts a server and loses it: the lock is free, the server runs on.
func orphan(t *testing.T, cfg Config) *Server {
	t.Helper()
	server := startServer(t, cfg)
	remember(t, server.URL())
	server.keeper.release()
	server.lock.release()
	return server
}

func TestOrphanedServerIsReplaced(t *testing.T) {
	t.Parallel()
	cfg := config(dataDir(t))
	lost := orphan(t, cfg)

	server := startServer(t, cfg)

	if isRunning(lost.keeper.current().pid()) {
		t.Error("the orphaned server still runs")
	}
	recall(t, server.URL())
}

func TestSessionsOfAKilledServerAreEnded(t *testing.T) {
	t.Parallel()
	cfg := config(dataDir(t))
	lost := orphan(t, cfg)
	// A session that computes does not notice that its server was killed.
	busy := make(chan struct{})
	go func() {
		defer close(busy)
		askQuietly(lost.URL(), "SELECT count(*) FROM generate_series(1, 100000000000)")
	}()
	awaitSession(t, lost.URL())
	if err := syscall.Kill(lost.keeper.current().pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-lost.keeper.current().done

	server := startServer(t, cfg)

	<-busy
	recall(t, server.URL())
}

func TestStalePidFile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		pid  func(t *testing.T, acc account) int
	}{
		{"names a process of the same user", bystander},
		{"names this process", func(*testing.T, account) int { return os.Getpid() }},
		{"names a server of other data", func(t *testing.T, _ account) int {
			return startServer(t, config(dataDir(t))).keeper.current().pid()
		}},
		{"names a process that is dead but not buried", zombie},
		{"names nothing", func(*testing.T, account) int { return 0 }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg := config(dataDir(t))
			p, acc := stopped(t, cfg)
			pid := test.pid(t, acc)
			leaveBehind(t, p, acc, pid)

			recall(t, startServer(t, cfg).URL())

			if pid != 0 && !strings.Contains(test.name, "dead") && !isRunning(pid) {
				t.Errorf("process %d, which the stale file named, was ended", pid)
			}
		})
	}
}

// stopped makes data with a fact in it and stops its server.
func stopped(t *testing.T, cfg Config) (place, account) {
	t.Helper()
	server := startServer(t, cfg)
	remember(t, server.URL())
	stopServer(t, server)
	p, err := openPlace(cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	acc, err := accountFor(p)
	if err != nil {
		t.Fatal(err)
	}
	return p, acc
}

// leaveBehind writes the files that a killed server leaves: its own pid file
// and the one beside its socket.
func leaveBehind(t *testing.T, p place, acc account, pid int) {
	t.Helper()
	sockets := filepath.Join(p.root, p.mark())
	if err := claim(sockets, acc); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%d\n%s\n1700000000\n5432\n%s\n\n  1234567  1\nready   \n", pid, p.cluster(), sockets)
	for _, path := range []string{p.pidFile(), filepath.Join(sockets, socketName+".lock")} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := acc.own(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServerThatSomebodyStartedByHandIsLeftAlone(t *testing.T) {
	t.Parallel()
	cfg := config(dataDir(t))
	p, acc := stopped(t, cfg)
	byHand := startByHand(t, p, acc)

	_, err := Start(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), strconv.Itoa(byHand)) {
		t.Errorf("got error %v, want one that names process %d", err, byHand)
	}
	if !isRunning(byHand) {
		t.Error("the server was ended")
	}
}

func TestSecondOwnerIsToldWhoTheFirstIs(t *testing.T) {
	t.Parallel()
	cfg := config(dataDir(t))
	startServer(t, cfg)

	_, err := Start(t.Context(), cfg)
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("got error %v, want ErrInUse naming process %d", err, os.Getpid())
	}
}

func TestOneOfManyStartsWins(t *testing.T) {
	t.Parallel()
	cfg := config(dataDir(t))
	errs := make([]error, 4)
	servers := make([]*Server, len(errs))
	var wg sync.WaitGroup
	for n := range errs {
		wg.Go(func() { servers[n], errs[n] = Start(t.Context(), cfg) })
	}
	wg.Wait()

	won := 0
	for n, err := range errs {
		switch {
		case err == nil:
			won++
			stopServer(t, servers[n])
		case !errors.Is(err, ErrInUse):
			t.Errorf("got error %v, want ErrInUse", err)
		}
	}
	if won != 1 {
		t.Errorf("%d starts succeeded, want 1", won)
	}
}

func TestCommandUsesTheRunningServer(t *testing.T) {
	t.Parallel()
	cfg := config(dataDir(t))
	server := startServer(t, cfg)
	remember(t, server.URL())
	// The gateway was started with another directory for temporary files.
	command := actor(t, "use", cfg.DataDir)
	command.cmd.Env = append(command.cmd.Env, "TMPDIR="+openDir(t))
	command.begin(t)

	if command.Error != "" || command.Owned {
		t.Fatalf("got %+v, want the running server", command.report)
	}
	recall(t, command.URL)
	if err := command.end(); err != nil {
		t.Errorf("end of the command: %v", err)
	}
	recall(t, server.URL())
}

func TestCommandStartsAServerOfItsOwn(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	command := actor(t, "use", dir).begin(t)

	if command.Error != "" || !command.Owned {
		t.Fatalf("got %+v, want a server of its own", command.report)
	}
	if err := command.end(); err != nil {
		t.Errorf("end of the command: %v", err)
	}
	if isRunning(command.Pid) {
		t.Error("the command's server outlives it")
	}
}

func TestCommandWaitsForAServerThatIsStarting(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	commands := []*other{actor(t, "use", dir), actor(t, "use", dir)}
	var wg sync.WaitGroup
	for _, c := range commands {
		wg.Go(func() { c.begin(t) })
	}
	wg.Wait()

	owned := 0
	for _, c := range commands {
		if c.Error != "" {
			t.Errorf("command: %s", c.Error)
		}
		if c.Owned {
			owned++
		}
	}
	if owned != 1 {
		t.Errorf("%d commands own the server, want 1", owned)
	}
}
