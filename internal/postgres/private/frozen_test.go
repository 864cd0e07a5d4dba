package private

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// owned lists the processes of the server of a data directory.
func owned(t *testing.T, cfg Config) []running {
	t.Helper()
	p, acc := placeOf(t, cfg)
	all, err := marked(acc, p)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func placeOf(t *testing.T, cfg Config) (place, account) {
	t.Helper()
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

// freeze stops processes where they are, and kills at the test's end what nobody
// has killed until then.
func freeze(t *testing.T, cfg Config, all []running) {
	t.Helper()
	all = slices.DeleteFunc(all, func(r running) bool { // a session may have ended meanwhile
		err := syscall.Kill(r.pid, syscall.SIGSTOP)
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
		return err != nil
	})
	if len(all) < 3 {
		t.Fatalf("only %d processes to freeze", len(all))
	}
	t.Cleanup(func() {
		for _, r := range owned(t, cfg) {
			if slices.ContainsFunc(all, func(frozen running) bool { return frozen.pid == r.pid }) {
				syscall.Kill(r.pid, syscall.SIGKILL)
			}
		}
	})
}

func send(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// soon is longer than anything here takes.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// noneLeft waits for the end of what was killed.
func noneLeft(t *testing.T, cfg Config) {
	t.Helper()
	awaitThat(t, "no process is left", func() bool { return len(owned(t, cfg)) == 0 })
}

func TestAFrozenServerIsStoppedWithItsSessions(t *testing.T) {
	t.Parallel()
	cfg := config(dataDir(t))
	server, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	remember(t, server.URL())
	freeze(t, cfg, owned(t, cfg))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()

	if err := server.Stop(ctx); err == nil {
		t.Error("a stop that had to kill the server returned no error")
	}

	if took := time.Since(began); took > 2*hardStop+time.Minute { // which a busy machine may take
		t.Errorf("after its time was over the stop took %v more", took)
	}
	noneLeft(t, cfg)
	recall(t, startServer(t, cfg).URL())
}

// A server that died by itself leaves frozen sessions to a stop as well.
func TestFrozenSessionsOfADeadServerEndWithTheStop(t *testing.T) {
	t.Parallel()
	cfg := config(dataDir(t))
	server, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	pid := server.keeper.current().pid()
	freeze(t, cfg, slices.DeleteFunc(owned(t, cfg), func(r running) bool { return r.pid == pid }))
	send(t, pid, syscall.SIGKILL)

	server.Stop(soon(t))

	noneLeft(t, cfg)
	startServer(t, cfg)
}

func TestAStartKillsWhatIsFrozen(t *testing.T) {
	t.Parallel()
	for name, killsServer := range map[string]bool{
		"the sessions of a server that was killed": true,
		"a server with its sessions":               false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(dataDir(t))
			lost := orphan(t, cfg)
			freeze(t, cfg, owned(t, cfg))
			if killsServer {
				send(t, lost.keeper.current().pid(), syscall.SIGKILL)
			}

			server, err := Start(soon(t), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { stopServer(t, server) })

			recall(t, server.URL())
		})
	}
}

// What cannot be ended bounds a start, too, and its error says what to do.
func TestAStartGivesUpOnWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	cfg := config(dataDir(t))
	lost := orphan(t, cfg)
	freeze(t, cfg, owned(t, cfg))
	pid := lost.keeper.current().pid()
	p, acc := placeOf(t, cfg)

	// A signal that a frozen process does not hear stands for one that nothing ends.
	err := end(soon(t), acc, p, []measure{{fastShutdown, syscall.SIGTERM, poll}, {fastShutdown, syscall.SIGTERM, poll}})

	for _, says := range []string{strconv.Itoa(pid), "restart the machine"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got error %v, want one that says %q", err, says)
		}
	}
	if !isRunning(pid) {
		t.Error("the server was ended")
	}
}

// Beside a server that is not ours nothing is killed.
func TestNothingIsKilledBesideAServerStartedByHand(t *testing.T) {
	t.Parallel()
	cfg := config(dataDir(t))
	p, acc := stopped(t, cfg)
	byHand := startByHand(t, p, acc)
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	session := exec.Command(sleep)
	session.Args = []string{"postgres: " + p.mark() + ":", "600"}
	session.SysProcAttr = &syscall.SysProcAttr{Credential: acc.credential()}
	if err := session.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Process.Kill()
		session.Wait()
	})

	_, err = Start(soon(t), cfg)
	if err == nil || !strings.Contains(err.Error(), strconv.Itoa(byHand)) {
		t.Errorf("got error %v, want one that names process %d", err, byHand)
	}
	if !isRunning(byHand) || !isRunning(session.Process.Pid) {
		t.Error("something was ended beside a server that is not ours")
	}
}
