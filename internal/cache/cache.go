// Package cache carries bytes that expire: in this process, or shared by all
// replicas through Valkey or Redis. Circuit state, idempotency results, cached
// answers and the counters of limits are written on it. It knows none of them,
// holds nothing that may not be lost, and never decides what its absence means:
// a caller that reads ErrUnavailable goes on without it.
package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

var (
	// ErrNotFound says that the key is absent or has expired.
	ErrNotFound = errors.New("not found in the cache")
	// ErrUnavailable says that the store cannot do its work now: it cannot be
	// reached, did not answer in time, lost the connection, or refuses to serve
	// (still loading, read only, out of memory, access denied). Whether a write
	// whose answer was lost took effect is unknown.
	ErrUnavailable = errors.New("cache is unavailable")

	// ErrRefused is an ErrUnavailable of a server that answers, and does not do
	// what it is told until a person has changed something: it is full, or
	// read-only, or does not let this user.
	ErrRefused = fmt.Errorf("%w: the server refuses", ErrUnavailable)

	// errClosed is the answer after Close.
	errClosed = fmt.Errorf("%w: it was closed", ErrUnavailable)
	// errTTL refuses what would stay for ever: every key expires.
	errTTL = errors.New("the time to live must be over 0: every key expires")
	// errWrongType is Redis' WRONGTYPE: a hash read as bytes, or the reverse.
	errWrongType = errors.New("the key holds another kind of value")
)

// Cache carries bytes with a time to live. Its methods may be called at the
// same time by many goroutines. A method ends when ctx does, at the latest.
// Keys and values may hold any bytes. A ttl of 0 or less is refused; a ttl is
// kept in whole milliseconds, rounded up.
type Cache interface {
	// Get returns the value, which belongs to the caller. Returns ErrNotFound
	// when the key is absent.
	Get(ctx context.Context, key string) ([]byte, error)
	// Set writes the value whatever was there.
	Set(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// Add writes the value when the key is absent, and says whether it did.
	Add(ctx context.Context, key string, value []byte, ttl time.Duration) (bool, error)
	// CompareAndSwap writes next when the value is old, byte by byte, and says
	// whether it did. An absent key equals nothing, not even an empty old.
	CompareAndSwap(ctx context.Context, key string, old, next []byte, ttl time.Duration) (bool, error)
	// Delete removes the key, whatever it holds; an absent one is no error.
	Delete(ctx context.Context, key string) error
	// Run runs the script as one step that nothing else comes between. All keys
	// that it touches are in keys, at least one, and share a slot.
	Run(ctx context.Context, s *Script, keys []string, args ...string) ([]string, error)
	// RunAll runs scripts in one round trip, each by itself: one that fails does
	// not hold the others back. Result i belongs to run i. They run in order, but
	// for scripts that the server has lost since: those come after the others.
	RunAll(ctx context.Context, runs []Run) []Result
	// Watch calls heard, one call at a time, for every message published on the
	// channel until ctx ends, and returns ctx's error, or ErrUnavailable once
	// the cache is closed. Messages are hints: those published while the
	// connection is lost, or faster than heard takes them, are missed.
	Watch(ctx context.Context, channel string, heard func(message string)) error
	// Close ends all watches and connections. It may be called twice.
	Close() error
}

// Config says how Open makes a cache.
type Config struct {
	Timeout  time.Duration // longest a call may take; 0 = 25ms; Valkey and Redis only
	MaxBytes int64         // what the cache in this process may hold; 0 = 256 MiB
	Log      *slog.Logger  // told when the server goes away and comes back; nil = nobody
}

// Open returns the cache that the URL names: an empty one means in this process,
// anything else a Valkey or Redis server, as in OpenValkey.
func Open(url string, cfg Config) (Cache, error) {
	if url == "" {
		return NewMemory(MemoryConfig{MaxBytes: cfg.MaxBytes}), nil
	}
	return OpenValkey(url, ValkeyConfig{Timeout: cfg.Timeout, Log: cfg.Log})
}

// milliseconds is the ttl in the unit in which servers keep it, rounded up so
// that no key lives shorter than it was asked to.
func milliseconds(ttl time.Duration) int64 {
	return int64((ttl + time.Millisecond - 1) / time.Millisecond)
}

// wrap names the method in front of an error that is not nil.
func wrap(method string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cache: %s: %w", method, err)
}
