package cache_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

func TestServerThatRefusesIsUnavailable(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var log journal
	v := reach(t, server.URL(), cache.Patient(cache.ValkeyConfig{Timeout: unhurried, Log: log.logger()}))
	do := func(args ...string) {
		t.Helper()
		if _, err := server.Do(args...); err != nil {
			t.Fatal(err)
		}
	}
	wantRefusal := func() {
		t.Helper()
		errSet := v.Set(t.Context(), "k", nil, time.Minute)
		_, errRun := v.Run(t.Context(), count, []string{"n"})
		all := v.RunAll(t.Context(), []cache.Run{{Script: count, Keys: []string{"n"}}})
		for _, err := range []error{errSet, errRun, all[0].Err} {
			if !errors.Is(err, cache.ErrUnavailable) {
				t.Errorf("got %v, want ErrUnavailable", err)
			}
		}
	}

	do("CONFIG", "SET", "maxmemory", "1")
	wantRefusal()
	do("CONFIG", "SET", "maxmemory", "0")
	backSoon(t, v)
	log.want(t)

	// A server that became a replica is not the one to talk to any more.
	do("REPLICAOF", "127.0.0.1", "1")
	wantRefusal()
	eventually(t, "the loss is logged", func() bool { return strings.Contains(log.String(), away) })
	do("REPLICAOF", "NO", "ONE")
	backSoon(t, v)
	log.want(t, away, back)
}

// A script that runs too long silences the server; the cache does without it
// until the script was killed.
func TestServerBusyWithAScriptIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--busy-reply-threshold", "20")
	v := reach(t, server.URL(), cache.ValkeyConfig{Timeout: hurried})
	endless := &cache.Script{Name: "endless", Lua: "while true do end"}
	eventually(t, "the script runs", func() bool { // of a busy machine it may come too late
		if _, err := v.Run(t.Context(), endless, []string{"k"}); !errors.Is(err, cache.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
		_, err := server.Do("PING")
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	})
	eventually(t, "the cache is away", func() bool { return !v.Available() })
	eventually(t, "the script is killed", func() bool { // and those that were sent after it
		_, _ = server.Do("SCRIPT", "KILL")
		return v.Available()
	})
	backSoon(t, v)
}

func TestWrongPasswordIsSaidWithoutIt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "right-secret")
	var log journal
	v := open(t, "redis://:wrong-secret@"+server.Addr(), cache.ValkeyConfig{Timeout: unhurried, Log: log.logger()})
	eventually(t, "the refusal is logged", func() bool { return strings.Contains(log.String(), away) })
	_, err := v.Get(t.Context(), "k")
	if !errors.Is(err, cache.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if text := log.String() + fmt.Sprint(err); strings.Contains(text, "secret") || !strings.Contains(text, "WRONGPASS") || !strings.Contains(text, server.Addr()) {
		t.Errorf("the log should say why and where, and not the password:\n%s", text)
	}

	right := reach(t, "redis://:right-secret@"+server.Addr()+"/3", cache.ValkeyConfig{Timeout: unhurried})
	if err := right.Set(t.Context(), "k", nil, time.Minute); err != nil {
		t.Error(err)
	}
	if got := server.Keys(); len(got) != 0 {
		t.Errorf("database 0 holds %q, which belongs to database 3", got)
	}
}

func TestWhatIsNoServerIsAway(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	website := httptest.NewServer(http.NotFoundHandler())
	defer website.Close()
	for name, address := range map[string]string{"nobody answers": silent.Addr().String(), "a web server": website.Listener.Addr().String()} {
		began := time.Now()
		v := open(t, "redis://"+address, cache.ValkeyConfig{Timeout: hurried})
		if _, err := v.Get(t.Context(), "k"); !errors.Is(err, cache.ErrUnavailable) {
			t.Errorf("%s: got %v, want ErrUnavailable", name, err)
		}
		closeCache(t, v)
		if took := time.Since(began); took > 2*slack {
			t.Errorf("%s: open, one call and close took %v", name, took)
		}
	}
}
