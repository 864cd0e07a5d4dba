package cache_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

// count adds one to its key and answers the sum.
var count = &cache.Script{
	Name: "count",
	Lua: `
local sum = redis.call('INCR', KEYS[1])
redis.call('PEXPIRE', KEYS[1], 600000)
return {tostring(sum)}
`,
	Go: func(tx cache.Tx, keys, _ []string) ([]string, error) {
		text, _ := tx.Get(keys[0])
		n, _ := strconv.Atoi(text)
		text = strconv.Itoa(n + 1)
		tx.Set(keys[0], text, 10*time.Minute)
		return []string{text}, nil
	},
}

// load calls the cache from many goroutines until it is stopped.
type load struct {
	stop  chan struct{}
	group sync.WaitGroup

	mu    sync.Mutex
	errs  []error
	times []time.Duration
	done  atomic.Int64 // calls without an error
}

func startLoad(t testing.TB, workers int, call func(context.Context) error) *load {
	l := &load{stop: make(chan struct{})}
	for range workers {
		l.group.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				default:
				}
				began := time.Now()
				l.note(call(context.WithoutCancel(t.Context())), time.Since(began))
			}
		})
	}
	t.Cleanup(l.end)
	return l
}

func (l *load) note(err error, took time.Duration) {
	if err == nil {
		l.done.Add(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
	l.times = append(l.times, took)
}

func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.group.Wait()
}

// more waits until further calls have succeeded.
func (l *load) more(t testing.TB, calls int64) {
	t.Helper()
	want := l.done.Load() + calls
	eventually(t, "calls succeed", func() bool { return l.done.Load() >= want })
}

// failed waits until calls have failed n times.
func (l *load) failed(t testing.TB, n int) {
	t.Helper()
	eventually(t, "calls fail", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.errs)-int(l.done.Load()) >= n
	})
}

// check ends the load and looks at what it saw: no error but ErrUnavailable, no
// call that took much longer than it may.
func (l *load) check(t testing.TB) {
	t.Helper()
	l.end()
	for _, err := range l.errs {
		if err != nil && !errors.Is(err, cache.ErrUnavailable) {
			t.Errorf("a call failed with %v, which is not ErrUnavailable", err)
			break
		}
	}
	if longest := slices.Max(l.times); longest > hurried+slack {
		t.Errorf("a call took %v, and may take %v", longest, hurried)
	}
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}
