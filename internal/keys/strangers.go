package keys

import (
	"crypto/sha256"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/credential"
)

const (
	// strangerTTL is how long a text that is no key is not looked up again.
	strangerTTL = 10 * time.Second
	// maxStrangers bounds how many are remembered.
	maxStrangers = 8192
)

// strangers are the texts that are no keys, which their owners send again.
type strangers struct {
	mu    sync.Mutex
	until map[stranger]time.Time
	swept time.Time
}

// stranger is one of them, without its secret.
type stranger struct {
	prefix string
	hash   [sha256.Size]byte
}

func strangerOf(given credential.Text) stranger {
	// A copy: the text may be a part of a request that is much longer.
	return stranger{strings.Clone(given.Prefix), [sha256.Size]byte(given.Hash())}
}

func newStrangers() *strangers { return &strangers{until: map[stranger]time.Time{}} }

func (s *strangers) has(given credential.Text, now time.Time) bool {
	which := strangerOf(given)
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Before(s.until[which])
}

// add remembers one, unless there are too many.
func (s *strangers) add(given credential.Text, now time.Time) {
	which := strangerOf(given)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.until) >= maxStrangers && now.Sub(s.swept) > time.Second {
		s.swept = now
		maps.DeleteFunc(s.until, func(_ stranger, until time.Time) bool { return !now.Before(until) })
	}
	if len(s.until) < maxStrangers {
		s.until[which] = now.Add(strangerTTL)
	}
}
