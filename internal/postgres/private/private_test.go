package private

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDataOutlivesARestart(t *testing.T) {
	t.Parallel()
	cfg := config(dataDir(t))
	first := startServer(t, cfg)
	remember(t, first.URL())
	stopServer(t, first)

	recall(t, startServer(t, cfg).URL())
}

func TestServerIsReachableForItsOwnerOnly(t *testing.T) {
	t.Parallel()
	server := startServer(t, config(dataDir(t)))

	if got := ask(t, server.URL(), "SHOW listen_addresses"); got != "" {
		t.Errorf("the server listens on %q, want no TCP address", got)
	}
	info, err := os.Stat(server.sockets)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("the socket's directory has mode %o, want 700", got)
	}
}

func TestCommitsAreDurableUnlessVolatile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		volatile bool
		want     string
	}{{"for users", false, "on"}, {"for tests", true, "off"}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg := config(dataDir(t))
			cfg.Volatile = test.volatile
			server := startServer(t, cfg)
			for _, setting := range []string{"fsync", "full_page_writes"} {
				if got := ask(t, server.URL(), "SHOW "+setting); got != test.want {
					t.Errorf("%s is %s, want %s", setting, got, test.want)
				}
			}
			if got := ask(t, server.URL(), "SHOW synchronous_commit"); got != "on" {
				t.Errorf("synchronous_commit is %s, want on", got)
			}
		})
	}
}

func TestRootRunsTheServerAsPostgres(t *testing.T) {
	t.Parallel()
	needRoot(t)
	server := startServer(t, config(dataDir(t)))

	if got := userOf(t, server.keeper.current().pid()); got != "postgres" {
		t.Errorf("the server runs as %s, want postgres", got)
	}
}

func TestOrdinaryUserRunsTheServerAsThemselves(t *testing.T) {
	t.Parallel()
	acc, dir := ordinary(t), openDir(t)
	if err := acc.own(dir); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	o := actor(t, "start", data).asOrdinary(t, acc).begin(t)

	if o.Error != "" {
		t.Fatal(o.Error)
	}
	if got := userOf(t, o.Pid); got != acc.name {
		t.Errorf("the server runs as %s, want %s", got, acc.name)
	}
	if err := o.end(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestRootKeepsServingWhatAnOrdinaryUserMade(t *testing.T) {
	t.Parallel()
	acc, dir := ordinary(t), openDir(t)
	if err := acc.own(dir); err != nil {
		t.Fatal(err)
	}
	o := actor(t, "start", dir).asOrdinary(t, acc).begin(t)
	if o.Error != "" {
		t.Fatal(o.Error)
	}
	remember(t, o.URL)
	if err := o.end(); err != nil {
		t.Fatal(err)
	}

	recall(t, startServer(t, config(dir)).URL())
}

func TestTerminalDoesNotReachTheServer(t *testing.T) {
	t.Parallel()
	server := startServer(t, config(dataDir(t)))

	got, err := unix.Getsid(server.keeper.current().pid())
	if err != nil {
		t.Fatal(err)
	}
	if want := server.keeper.current().pid(); got != want {
		t.Errorf("the server is in session %d, want one of its own (%d)", got, want)
	}
}

func TestServerDoesNotInheritTheEnvironment(t *testing.T) {
	t.Setenv("PROVIDER_KEY", "secret-word")
	t.Setenv("PGPORT", "1")
	t.Setenv("PGDATA", "/nonexistent")
	server := startServer(t, config(dataDir(t)))

	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", server.keeper.current().pid()))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"secret-word", "PGPORT", "PGDATA"} {
		if strings.Contains(string(environ), word) {
			t.Errorf("the server's environment has %s", word)
		}
	}
}

func TestStopTwice(t *testing.T) {
	t.Parallel()
	server := startServer(t, config(dataDir(t)))
	stopServer(t, server)
	stopServer(t, server)

	if _, err := os.Stat(server.sockets); !os.IsNotExist(err) {
		t.Errorf("the socket's directory is still there: %v", err)
	}
}

func TestSecondStopLeavesTheNextOwnersServerAlone(t *testing.T) {
	t.Parallel()
	cfg := config(dataDir(t))
	first := startServer(t, cfg)
	stopServer(t, first)
	second := startServer(t, cfg)

	stopServer(t, first)

	remember(t, second.URL())
	if _, err := Start(t.Context(), cfg); !errors.Is(err, ErrInUse) {
		t.Errorf("got error %v, want ErrInUse", err)
	}
}

func TestStopThatMustHurryKeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	cfg := config(dataDir(t))
	server := startServer(t, cfg)
	remember(t, server.URL())
	over, cancel := context.WithCancel(t.Context())
	cancel()

	server.keeper.release()
	err := server.keeper.current().stop(over)
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want the context's or none", err)
	}
	stopServer(t, server)
	recall(t, startServer(t, cfg).URL())
}

func TestStartThatIsGivenUpCanBeTriedAgain(t *testing.T) {
	t.Parallel()
	cfg := config(openDir(t))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(over, cfg); err == nil {
		t.Fatal("a start without time succeeded")
	}

	startServer(t, cfg)
}

func TestHalfMadeDataIsMadeAnew(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	half := filepath.Join(dir, "postgres.new")
	if err := os.Mkdir(half, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "PG_VERSION"), []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	startServer(t, config(dir))
}

func TestErrorOfAServerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	cfg := config(openDir(t))
	stopServer(t, startServer(t, cfg))
	settings := filepath.Join(cfg.DataDir, "postgres", "postgresql.conf")
	if err := os.WriteFile(settings, []byte("no_such_setting = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	_, err := Start(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "FATAL") {
		t.Errorf("got error %v, want the server's own fatal line", err)
	}
}
