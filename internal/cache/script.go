package cache

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"sync"
	"time"
)

// Script is one atomic step, written twice: in Lua for Valkey and Redis, and in
// Go for the cache in this process. Both do the same to the same keys and answer
// the same. It is used through a pointer, usually a package-level one.
type Script struct {
	// Name tells scripts apart in errors.
	Name string
	// Lua reads KEYS and ARGV and returns an array of strings (numbers it formats
	// itself), {} when there is nothing to say. What Tx does it does with
	// redis.call, and every key it writes gets a time to live.
	Lua string
	// Go is the same step. It may be run while other scripts wait, so it neither
	// blocks nor keeps tx.
	Go func(tx Tx, keys, args []string) ([]string, error)

	hash sync.Once
	sha  string
}

// Tx is what a Go script may do, to the keys it was given only. A misuse that
// makes a server refuse the command (a key that was not declared, a key of the
// other kind, a ttl of 0) ends the script with an error; what it did before
// stays, as on a server.
type Tx interface {
	// Now is the store's clock: TIME.
	Now() time.Time
	// Get is GET; false when the key is absent.
	Get(key string) (string, bool)
	// Set is SET PX.
	Set(key, value string, ttl time.Duration)
	// Delete is DEL.
	Delete(key string)
	// HashGet is HGET; false when the field is absent.
	HashGet(key, field string) (string, bool)
	// HashAll is HGETALL; empty when the key is absent. The map is the caller's.
	HashAll(key string) map[string]string
	// HashSet is HSET, then PEXPIRE of the whole key when it would expire sooner
	// than ttl from now: it never shortens the time the key has.
	HashSet(key, field, value string, ttl time.Duration)
	// HashDelete is HDEL; the key goes with its last field.
	HashDelete(key, field string)
	// Publish is PUBLISH.
	Publish(channel, message string)
}

// Run is one entry of RunAll.
type Run struct {
	Script *Script
	Keys   []string
	Args   []string
}

// Result is what Run would have returned for one entry.
type Result struct {
	Values []string
	Err    error
}

// sha1 returns the name under which servers keep the script.
func (s *Script) sha1() string {
	s.hash.Do(func() {
		sum := sha1.Sum([]byte(s.Lua))
		s.sha = hex.EncodeToString(sum[:])
	})
	return s.sha
}

// failed says which script an error comes from.
func (s *Script) failed(err error) error {
	return fmt.Errorf("cache: script %s: %w", s.Name, err)
}
