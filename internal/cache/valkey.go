package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

const (
	defaultTimeout = 25 * time.Millisecond
	// firstLook is how long OpenValkey waits for the first connection, so that a
	// server that is there serves the first call.
	firstLook = time.Second
)

// ValkeyConfig says how a Valkey treats its server.
type ValkeyConfig struct {
	Timeout time.Duration // longest a call may take, also without a deadline; 0 = 25ms
	Log     *slog.Logger  // told when the server goes away and comes back; nil = nobody

	patience time.Duration // how long a server may be silent, where that is longer than by default
}

// Valkey is the cache on a Valkey or Redis server or cluster. While the server
// is away every call fails at once with ErrUnavailable, and one goroutine tries
// to get it back; nobody has to ask for that. A call is sent once at most: one
// whose answer is lost is not repeated.
type Valkey struct {
	timeout  time.Duration
	patience time.Duration
	log      *slog.Logger
	address  string // for the log: hosts without credentials
	options  rueidis.ClientOption

	line   atomic.Pointer[line] // nil while there is no connection
	closed atomic.Bool
	stop   context.CancelFunc
	gone   context.Context // ends when the cache is closed
	work   sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed when a line is there again
}

var _ Cache = (*Valkey)(nil)

// OpenValkey returns the cache on the server that the URL names, such as
// rediss://user:password@host:6380/0 (schemes redis, rediss, valkey, valkeys;
// further nodes of a cluster as ?addr=host:port). The error is about the URL
// alone and never shows its password; a server that is away is awaited in the
// background.
func OpenValkey(url string, cfg ValkeyConfig) (*Valkey, error) {
	options, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	return openValkey(tuned(options), cfg), nil
}

func openValkey(options rueidis.ClientOption, cfg ValkeyConfig) *Valkey {
	v := &Valkey{timeout: cfg.Timeout, patience: max(cfg.patience, patience), log: cfg.Log, options: options, changed: make(chan struct{})}
	if v.timeout <= 0 {
		v.timeout = defaultTimeout
	}
	// A server that may take its time for a call is not gone before that is over.
	v.options.Dialer.Timeout = max(dialTimeout, v.timeout)
	v.options.ConnWriteTimeout = max(pingTimeout, v.timeout, v.patience)
	if v.log == nil {
		v.log = slog.New(slog.DiscardHandler)
	}
	v.address = fmt.Sprint(options.InitAddress)
	v.gone, v.stop = context.WithCancel(context.Background())
	tried := make(chan struct{})
	v.work.Go(func() { v.keep(sync.OnceFunc(func() { close(tried) })) })
	select {
	case <-tried:
	case <-time.After(firstLook):
	}
	return v
}

// Available says whether the last that was heard of the server is good: false
// while calls fail at once. It asks nobody.
func (v *Valkey) Available() bool {
	l := v.line.Load()
	return l != nil && l.state.Load() == lineUp
}

// Get is described by Cache.
func (v *Valkey) Get(ctx context.Context, key string) ([]byte, error) {
	var value []byte
	err := v.one(ctx, func(c rueidis.Client) rueidis.Completed {
		return c.B().Get().Key(key).Build()
	}, func(r rueidis.RedisResult) (err error) {
		value, err = r.AsBytes()
		return err
	})
	if rueidis.IsRedisNil(err) {
		return nil, ErrNotFound
	}
	return value, wrap("get", err)
}

// Set is described by Cache.
func (v *Valkey) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if ttl <= 0 {
		return wrap("set", errTTL)
	}
	text := string(value) // a copy: the command may outlive the call
	return wrap("set", v.one(ctx, func(c rueidis.Client) rueidis.Completed {
		return c.B().Set().Key(key).Value(text).PxMilliseconds(milliseconds(ttl)).Build()
	}, rueidis.RedisResult.Error))
}

// Add is described by Cache.
func (v *Valkey) Add(ctx context.Context, key string, value []byte, ttl time.Duration) (bool, error) {
	if ttl <= 0 {
		return false, wrap("add", errTTL)
	}
	text := string(value)
	err := v.one(ctx, func(c rueidis.Client) rueidis.Completed {
		return c.B().Set().Key(key).Value(text).Nx().PxMilliseconds(milliseconds(ttl)).Build()
	}, rueidis.RedisResult.Error)
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return err == nil, wrap("add", err)
}

// CompareAndSwap is described by Cache.
func (v *Valkey) CompareAndSwap(ctx context.Context, key string, old, next []byte, ttl time.Duration) (bool, error) {
	if ttl <= 0 {
		return false, wrap("compare and swap", errTTL)
	}
	values, err := v.run(ctx, compareAndSwap, []string{key}, []string{string(old), string(next), format(milliseconds(ttl))})
	return len(values) == 1, wrap("compare and swap", err)
}

// Delete is described by Cache.
func (v *Valkey) Delete(ctx context.Context, key string) error {
	return wrap("delete", v.one(ctx, func(c rueidis.Client) rueidis.Completed {
		return c.B().Del().Key(key).Build()
	}, rueidis.RedisResult.Error))
}

// Close is described by Cache.
func (v *Valkey) Close() error {
	v.closed.Store(true)
	v.stop()
	v.work.Wait()
	return nil
}

// one sends a single command and reads its answer.
func (v *Valkey) one(ctx context.Context, build func(rueidis.Client) rueidis.Completed, read func(rueidis.RedisResult) error) error {
	return v.call(ctx, func(ctx context.Context, l *line) error {
		return read(l.client.Do(ctx, build(l.client)))
	})
}

// call gives send a connection and the time that the call may take, and
// translates what came of it.
func (v *Valkey) call(ctx context.Context, send func(context.Context, *line) error) error {
	if v.closed.Load() {
		return errClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	l := v.line.Load()
	if l == nil || l.state.Load() != lineUp {
		return errAway
	}
	bounded, cancel := v.bound(ctx)
	defer cancel()
	switch err := l.enter(bounded); {
	case isContextError(err):
		return timedOut(ctx)
	case err != nil:
		return err
	}
	err := send(bounded, l)
	if err != nil && bounded.Err() != nil && isContextError(err) {
		l.abandon()
		return timedOut(ctx)
	}
	l.leave()
	return l.translate(err)
}

// bound ends a call at its own deadline or after the configured time, whichever
// comes first.
func (v *Valkey) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= v.timeout {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, v.timeout)
}

func isContextError(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
