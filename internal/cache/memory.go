package cache

import (
	"bytes"
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

const (
	defaultMaxBytes = 256 << 20
	stripes         = 256 // a divisor of slots, so that keys of one slot share a lock
	entryOverhead   = 160 // bytes that an entry costs beside its key and value
	fieldOverhead   = 48  // bytes that a field of a hash costs beside its texts
)

// MemoryConfig says how much a Memory may hold.
type MemoryConfig struct {
	MaxBytes int64            // keys, values and their overhead; 0 = 256 MiB
	Now      func() time.Time // nil = time.Now
}

// Memory is the cache in this process. When it is full it drops what is least
// likely to be used again, as a server with a memory limit does.
type Memory struct {
	now     func() time.Time
	began   time.Time
	entries *otter.Cache[string, *entry]
	locks   [stripes]sync.Mutex // writes and scripts; a key's lock is chosen by its slot
	hub     hub
	closed  atomic.Bool
}

var _ Cache = (*Memory)(nil)

// entry is immutable but for its hash; its cost is that of the moment it was
// stored.
type entry struct {
	value   []byte
	hash    *hash // not nil: the key holds a hash, which knows when it expires
	expires time.Time
	cost    uint32
}

// hash is what a key holds that scripts alone write, under the key's lock.
type hash struct {
	fields map[string]string
	size   uint64       // of what it holds, in bytes
	until  atomic.Int64 // when it expires, in nanoseconds since the cache began
	known  int64        // how long the store keeps it at least, likewise; it is stored again before
}

// NewMemory returns an empty cache.
func NewMemory(cfg MemoryConfig) *Memory {
	m := &Memory{now: cfg.Now, hub: newHub()}
	if m.now == nil {
		m.now = time.Now
	}
	m.began = m.now()
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	m.entries = otter.Must(&otter.Options[string, *entry]{
		MaximumWeight:    uint64(cfg.MaxBytes),
		Weigher:          func(_ string, e *entry) uint32 { return e.cost },
		ExpiryCalculator: otter.ExpiryWritingFunc(m.lifetime),
		Clock:            clock(cfg.Now),
	})
	return m
}

// Get is described by Cache.
func (m *Memory) Get(ctx context.Context, key string) ([]byte, error) {
	if err := m.check(ctx); err != nil {
		return nil, wrap("get", err)
	}
	e := m.find(key)
	switch {
	case e == nil:
		return nil, ErrNotFound
	case e.hash != nil:
		return nil, wrap("get", errWrongType)
	}
	return clone(e.value), nil
}

// Set is described by Cache.
func (m *Memory) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	_, err := m.write(ctx, "set", key, value, ttl, func(*entry) (bool, error) { return true, nil })
	return err
}

// Add is described by Cache.
func (m *Memory) Add(ctx context.Context, key string, value []byte, ttl time.Duration) (bool, error) {
	return m.write(ctx, "add", key, value, ttl, func(e *entry) (bool, error) { return e == nil, nil })
}

// CompareAndSwap is described by Cache.
func (m *Memory) CompareAndSwap(ctx context.Context, key string, old, next []byte, ttl time.Duration) (bool, error) {
	return m.write(ctx, "compare and swap", key, next, ttl, func(e *entry) (bool, error) {
		if e != nil && e.hash != nil {
			return false, errWrongType
		}
		return e != nil && bytes.Equal(e.value, old), nil
	})
}

// Delete is described by Cache.
func (m *Memory) Delete(ctx context.Context, key string) error {
	if err := m.check(ctx); err != nil {
		return wrap("delete", err)
	}
	lock := m.lock(key)
	lock.Lock()
	defer lock.Unlock()
	m.entries.Invalidate(key)
	return nil
}

// Watch is described by Cache.
func (m *Memory) Watch(ctx context.Context, channel string, heard func(message string)) error {
	if err := m.check(ctx); err != nil {
		return wrap("watch", err)
	}
	messages, leave := m.hub.join(channel)
	defer leave()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.hub.closed:
			return errClosed
		case message := <-messages:
			heard(message)
		}
	}
}

// Close is described by Cache.
func (m *Memory) Close() error {
	if !m.closed.Swap(true) {
		close(m.hub.closed)
		m.entries.InvalidateAll()
		m.entries.StopAllGoroutines()
	}
	return nil
}

// write stores the value under its key's lock when may agrees with what is there.
func (m *Memory) write(ctx context.Context, method, key string, value []byte, ttl time.Duration, may func(*entry) (bool, error)) (bool, error) {
	if err := m.check(ctx); err != nil {
		return false, wrap(method, err)
	}
	if ttl <= 0 {
		return false, wrap(method, errTTL)
	}
	lock := m.lock(key)
	lock.Lock()
	defer lock.Unlock()
	ok, err := may(m.find(key))
	if ok {
		m.store(key, &entry{value: clone(value), expires: m.expiry(ttl)})
	}
	return ok, wrap(method, err)
}

func (m *Memory) check(ctx context.Context) error {
	if m.closed.Load() {
		return errClosed
	}
	return ctx.Err()
}

func (m *Memory) lock(key string) *sync.Mutex {
	return &m.locks[Slot(key)%stripes]
}

// find returns the living entry of a key, or nil. Expiry is judged here, by the
// cache's own clock, so that a key is gone to the millisecond.
func (m *Memory) find(key string) *entry {
	return m.findAt(key, m.now())
}

func (m *Memory) findAt(key string, now time.Time) *entry {
	e, ok := m.entries.GetIfPresent(key)
	switch {
	case !ok:
		return nil
	case e.hash != nil && m.since(now) < e.hash.until.Load():
		return e
	case e.hash == nil && now.Before(e.expires):
		return e
	}
	return nil
}

// since is a time in nanoseconds since the cache began.
func (m *Memory) since(at time.Time) int64 { return int64(at.Sub(m.began)) }

// store keeps an entry; the caller holds the key's lock.
func (m *Memory) store(key string, e *entry) {
	e.cost = cost(key, e)
	m.entries.Set(key, e)
}

// spare is the part of a hash's life that the store is told too much, so that it
// need not hear of every change.
const spare = 16

// storeHash keeps a hash that a script has changed; the caller holds the key's
// lock. The store is told where it would else drop it too early, or where the hash
// has outgrown what it was told, or is less than half of it.
func (m *Memory) storeHash(key string, e *entry, now int64) {
	h := e.hash
	until, told := h.until.Load(), uint64(e.cost)
	size := uint64(cost(key, e))
	if until <= h.known && size <= told && size >= told/2 {
		return
	}
	h.known = until + (until-now)/spare
	m.store(key, &entry{hash: h, expires: m.began.Add(time.Duration(h.known))})
}

func (m *Memory) expiry(ttl time.Duration) time.Time { return expiry(m.now(), ttl) }

func expiry(now time.Time, ttl time.Duration) time.Time {
	return now.Add(time.Duration(milliseconds(ttl)) * time.Millisecond)
}

// lifetime tells the store when it may forget an entry by itself.
func (m *Memory) lifetime(e otter.Entry[string, *entry]) time.Duration {
	return max(e.Value.expires.Sub(m.now()), 1)
}

func cost(key string, e *entry) uint32 {
	sum := uint64(len(key) + len(e.value) + entryOverhead)
	if e.hash != nil {
		sum += e.hash.size
	}
	return uint32(min(sum, math.MaxUint32))
}

// clone never returns nil: an empty value is a value.
func clone(value []byte) []byte {
	return append(make([]byte, 0, len(value)), value...)
}

// clock makes the store forget by the cache's own clock where that is not the
// real one.
func clock(now func() time.Time) otter.Clock {
	if now == nil {
		return nil
	}
	return ownClock(now)
}

type ownClock func() time.Time

func (c ownClock) NowNano() int64                      { return c().UnixNano() }
func (c ownClock) Tick(time.Duration) <-chan time.Time { return nil }
