package cache_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

const (
	away = "cache is away"
	back = "cache is back"

	// hurried is a call's time in the tests of lost servers: long enough for a
	// busy machine, short enough to be told from a call that hangs.
	hurried = 100 * time.Millisecond
	// slack is what a busy machine may add to a call's time. A call that hangs takes
	// as long as its server does, which is for ever.
	slack = 30 * time.Second
)

// backSoon waits until the cache serves again, and says so when that took long.
func backSoon(t testing.TB, v *cache.Valkey) {
	t.Helper()
	began := time.Now()
	eventually(t, "the cache serves again", func() bool {
		return v.Set(t.Context(), "probe", nil, time.Minute) == nil
	})
	if took := time.Since(began); took > time.Second+slack {
		t.Errorf("it took %v until the cache served again", took)
	}
}

func counting(v cache.Cache) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := v.Run(ctx, count, []string{"n"})
		return err
	}
}

func TestKilledServerIsMissedAndFoundAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var log journal
	v := reach(t, server.URL(), cache.Patient(cache.ValkeyConfig{Timeout: hurried, Log: log.logger()}))
	l := startLoad(t, 8, counting(v))
	l.more(t, 100)

	server.Kill()
	l.failed(t, 1000)
	eventually(t, "the cache calls itself unavailable", func() bool { return !v.Available() })
	server.Restart()
	l.more(t, 100)

	l.check(t)
	backSoon(t, v)
	log.want(t, away, back)
}

func TestServerAwayAtTheStartIsFoundLater(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	var log journal
	v := open(t, server.URL(), cache.Patient(cache.ValkeyConfig{Timeout: hurried, Log: log.logger()}))
	began := time.Now()
	for range 1000 {
		if _, err := v.Get(t.Context(), "k"); !errors.Is(err, cache.ErrUnavailable) {
			t.Fatalf("got %v, want ErrUnavailable", err)
		}
	}
	if took := time.Since(began); took > slack {
		t.Errorf("a thousand calls to a server that is away took %v", took)
	}

	server.Restart()
	backSoon(t, v)
	log.want(t, away, back)
}

func TestFrozenServerCostsACallItsTimeAndThenNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var log journal
	v := reach(t, server.URL(), cache.ValkeyConfig{Timeout: hurried, Log: log.logger()})
	l := startLoad(t, 8, counting(v))
	l.more(t, 100)

	server.Freeze()
	l.failed(t, 2000)
	eventually(t, "the loss is logged", func() bool { return log.last() == away })
	if v.Available() {
		t.Error("the cache calls itself available while its server is frozen")
	}
	server.Thaw()
	l.more(t, 100)

	l.check(t)
	backSoon(t, v)
	log.wantTurns(t) // a busy machine may lose the server more often
	// A call whose answer was lost may have taken effect; it did not twice.
	ran, _ := server.Do("GET", "n")
	if n, _ := strconv.ParseInt(fmt.Sprint(ran), 10, 64); n < l.done.Load() || n > int64(len(l.errs)) {
		t.Errorf("the script ran %d times for %d successes among %d calls", n, l.done.Load(), len(l.errs))
	}
}

// An idle cache learns it too, from its own questions.
func TestFrozenServerIsMissedWithoutCalls(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	v := reach(t, server.URL(), cache.ValkeyConfig{Timeout: hurried})
	server.Freeze()
	eventually(t, "the silence is noticed", func() bool { return !v.Available() })
	server.Thaw()
	eventually(t, "the voice is noticed", v.Available)
}

func TestShortPauseOfTheServerCostsNoConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var log journal
	v := reach(t, server.URL(), cache.Patient(cache.ValkeyConfig{Timeout: 20 * time.Millisecond, Log: log.logger()}))
	before := connectionIDs(t, server)

	server.Freeze()
	eventually(t, "a call fails", func() bool { return errors.Is(counting(v)(t.Context()), cache.ErrUnavailable) })
	server.Thaw()
	eventually(t, "a call succeeds", func() bool { return counting(v)(t.Context()) == nil })

	if after := connectionIDs(t, server); !slices.Equal(before, after) {
		t.Errorf("connections before %v and after %v", before, after)
	}
	log.want(t)
}

// Who gives the server long for a call gets the answer of one that was silent for
// less than that, also when it was longer than usual.
func TestALongTimeForACallOutlastsASilence(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var log journal
	v := reach(t, server.URL(), cache.ValkeyConfig{Timeout: unhurried, Log: log.logger()})
	server.Freeze()
	answered := make(chan error, 1)
	go func() { answered <- counting(v)(t.Context()) }()
	<-time.After(3 * time.Second) // an idle connection would have been given up
	server.Thaw()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	log.want(t)
}

// connectionIDs lists the cache's connections as the server numbers them.
func connectionIDs(t *testing.T, server *redistest.Server) (ids []string) {
	t.Helper()
	list, err := server.Do("CLIENT", "LIST")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(fmt.Sprint(list)) {
		if strings.Contains(line, "name=breakwater") {
			id, _, _ := strings.Cut(line, " ")
			ids = append(ids, id)
		}
	}
	return ids
}

func TestCutConnectionsAreMadeAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	v := reach(t, server.URL(), cache.ValkeyConfig{Timeout: hurried})
	l := startLoad(t, 8, counting(v))
	for range 3 {
		l.more(t, 100)
		if _, err := server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); err != nil {
			t.Fatal(err)
		}
	}
	l.more(t, 100)
	l.check(t)
}

func TestLostScriptsAreBroughtAlongAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	v := reach(t, server.URL(), cache.ValkeyConfig{Timeout: unhurried})
	one := startLoad(t, 4, counting(v))
	many := startLoad(t, 4, func(ctx context.Context) error {
		var errs []error
		for _, r := range v.RunAll(ctx, slices.Repeat([]cache.Run{{Script: count, Keys: []string{"m"}}}, 10)) {
			errs = append(errs, r.Err)
		}
		return errors.Join(errs...)
	})
	for range 20 {
		server.FlushScripts()
		one.more(t, 5)
		many.more(t, 5)
	}
	one.check(t)
	many.check(t)

	for key, l := range map[string]struct {
		*load
		want int64
	}{"n": {one, one.done.Load()}, "m": {many, 10 * many.done.Load()}} {
		if failures := len(l.errs) - int(l.done.Load()); failures != 0 {
			t.Errorf("%s: %d of %d calls failed", key, failures, len(l.errs))
		}
		if got, _ := server.Do("GET", key); got != strconv.FormatInt(l.want, 10) {
			t.Errorf("%s was counted %v times, want %d", key, got, l.want)
		}
	}
}

// On a connection that has not run its scripts yet, a batch keeps its order.
func TestFirstBatchKeepsItsOrder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	program := func(op, value string) cache.Run {
		return cache.Run{Script: machine, Keys: []string{"k"}, Args: []string{op, "1", "", value, "60000"}}
	}
	for round := range 3 {
		v := reach(t, server.URL(), cache.ValkeyConfig{Timeout: unhurried})
		server.FlushAll()
		server.FlushScripts()
		if round == 2 { // one of the two scripts is known
			if _, err := v.Run(t.Context(), machine, []string{"k"}); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, r := range v.RunAll(t.Context(), []cache.Run{
			program("set", "1"), {Script: count, Keys: []string{"k"}}, program("get", ""), {Script: count, Keys: []string{"k"}}, program("get", ""),
		}) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			got = append(got, r.Values...)
		}
		if want := []string{"2", "=2", "3", "=3"}; !slices.Equal(got, want) {
			t.Errorf("round %d: got %q, want %q", round, got, want)
		}
	}
}

func TestFlushedKeysAreJustAbsent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	v := reach(t, server.URL(), cache.ValkeyConfig{Timeout: unhurried})
	l := startLoad(t, 8, func(ctx context.Context) error {
		if err := v.Set(ctx, "k", []byte("v"), time.Minute); err != nil {
			return err
		}
		if got, err := v.Get(ctx, "k"); err != nil && !errors.Is(err, cache.ErrNotFound) || err == nil && string(got) != "v" {
			return fmt.Errorf("got %q, %w", got, err)
		}
		return counting(v)(ctx)
	})
	for range 20 {
		server.FlushAll()
		l.more(t, 10)
	}
	l.check(t)
	if failures := len(l.errs) - int(l.done.Load()); failures != 0 {
		t.Errorf("%d of %d calls failed", failures, len(l.errs))
	}
}

func TestWatchHearsAgainAfterARestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	v := reach(t, server.URL(), cache.ValkeyConfig{Timeout: hurried})
	heard := make(chan string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- v.Watch(ctx, "channel", func(message string) {
			select {
			case heard <- message:
			default:
			}
		})
	}()
	hear := func(message string) {
		t.Helper()
		eventually(t, message+" is heard", func() bool {
			if _, err := server.Do("PUBLISH", "channel", message); err != nil {
				t.Fatal(err)
			}
			select {
			case got := <-heard:
				return got == message
			default:
				return false
			}
		})
	}

	hear("before")
	server.Restart()
	hear("after a restart")
	if _, err := server.Do("CLIENT", "KILL", "TYPE", "pubsub"); err != nil {
		t.Fatal(err)
	}
	hear("after a cut")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
}

func TestCallEndsAtItsOwnDeadline(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	v := reach(t, server.URL(), cache.ValkeyConfig{Timeout: time.Minute})
	server.Freeze()
	t.Cleanup(server.Thaw)

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // which the call must reach before it is over
	defer cancel()
	began := time.Now()
	_, err := v.Get(ctx, "k")
	if took := time.Since(began); took > slack {
		t.Errorf("the call took %v", took)
	}
	if !errors.Is(err, cache.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want ErrUnavailable and the deadline", err)
	}

	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	got := v.RunAll(ctx, []cache.Run{{Script: count, Keys: []string{"n"}}, {Script: count, Keys: []string{"n"}}})
	for _, r := range got {
		if !errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, cache.ErrUnavailable) {
			t.Errorf("got %v from a caller who left, want its context's error", r.Err)
		}
	}
}

// Thousands of calls that wait for a frozen server neither wait for each other
// nor stay behind.
func TestFrozenServerHoldsNobody(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	v := reach(t, server.URL(), cache.ValkeyConfig{Timeout: hurried})
	before := runtime.NumGoroutine()
	server.Freeze()
	for range 3 {
		var group sync.WaitGroup
		began := time.Now()
		for i := range 3000 {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%100)*time.Millisecond)
				defer cancel()
				if err := v.Set(ctx, "k", make([]byte, 1000), time.Minute); !errors.Is(err, cache.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want ErrUnavailable", err)
				}
			})
		}
		group.Wait()
		if took := time.Since(began); took > hurried+5*slack { // most of it is the machine's
			t.Errorf("3000 calls of up to %v took %v", hurried, took)
		}
	}
	eventually(t, "the goroutines of the calls end", func() bool { return runtime.NumGoroutine() < before+500 })
	server.Thaw()
	backSoon(t, v)
}
