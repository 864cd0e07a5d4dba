package private

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// answers reports whether a server at the address answers.
func answers(url string) bool {
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		return false
	}
	return conn.Close(context.Background()) == nil
}

// kill ends the server by a signal and waits until another one has taken its
// place.
func kill(t *testing.T, server *Server, sig syscall.Signal) {
	t.Helper()
	killed := server.keeper.current()
	if err := syscall.Kill(killed.pid(), sig); err != nil {
		t.Fatal(err)
	}
	<-killed.done
	awaitThat(t, "the server is back", func() bool {
		return server.keeper.current() != killed && answers(server.URL())
	})
}

// A server that ends by itself comes back with its data, where it was, and the
// log says both.
func TestAServerThatEndsByItselfIsStartedAgain(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{
		"killed":    syscall.SIGKILL,
		"shut down": fastShutdown,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log lockedBuffer
			cfg := config(dataDir(t))
			cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
			server := startServer(t, cfg)
			remember(t, server.URL())

			kill(t, server, sig)
			recall(t, server.URL())
			kill(t, server, sig)
			recall(t, server.URL())

			for _, says := range []string{"level=ERROR msg=\"private database ended by itself, it is started again\"", "level=INFO msg=\"private database is back\""} {
				awaitThat(t, "the log says all", func() bool { return strings.Count(log.String(), says) >= 2 })
				if n := strings.Count(log.String(), says); n != 2 {
					t.Errorf("the log says %d times %q, want 2:\n%s", n, says, log.String())
				}
			}
		})
	}
}

// What keeps a server from starting is said once, however often it is tried,
// and does not keep Stop waiting.
func TestAServerThatCannotBeStartedAgain(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	cfg := config(openDir(t))
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	server := startServer(t, cfg)
	remember(t, server.URL())
	settings := filepath.Join(cfg.DataDir, "postgres", "postgresql.conf")
	good, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}
	_, acc := placeOf(t, cfg)
	spoil := func(text []byte) { // at once: half a file would be another reason
		t.Helper()
		whole := settings + ".new"
		if err := errors.Join(os.WriteFile(whole, text, 0o600), acc.own(whole), os.Rename(whole, settings)); err != nil {
			t.Fatal(err)
		}
	}

	spoil([]byte("no_such_setting = 1\n"))
	if err := syscall.Kill(server.keeper.current().pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitThat(t, "the log says that it cannot be started", func() bool {
		return strings.Contains(log.String(), "private database cannot be started again")
	})
	spoil(good)
	awaitThat(t, "the server is back", func() bool { return answers(server.URL()) })
	recall(t, server.URL())
	if n := strings.Count(log.String(), "cannot be started again"); n != 1 {
		t.Errorf("the log says %d times why, want once:\n%s", n, log.String())
	}

	spoil([]byte("no_such_setting = 2\n"))
	if err := syscall.Kill(server.keeper.current().pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitThat(t, "the log says that it cannot be started", func() bool {
		return strings.Count(log.String(), "cannot be started again") == 2
	})
	stopServer(t, server)
	spoil(good)
	recall(t, startServer(t, cfg).URL())
}
