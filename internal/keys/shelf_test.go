package keys

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/credential"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// shelf is a store in memory that counts what it is asked, and can be away or
// hang.
type shelf struct {
	mu      sync.Mutex
	live    map[string]liveKey
	minted  map[string]time.Time
	revoked map[string]time.Time
	err     error         // of every question
	held    chan struct{} // look-ups wait for its end; nil = none

	lookUps atomic.Int64
	asked   map[string]int
}

func newShelf() *shelf {
	return &shelf{live: map[string]liveKey{}, minted: map[string]time.Time{}, revoked: map[string]time.Time{}, asked: map[string]int{}}
}

var errAway = errors.New("the database is away")

// put keeps a new key that lives for ttl, negative = for ever.
func (s *shelf) put(name string, ttl time.Duration) credential.Text {
	s.mu.Lock()
	defer s.mu.Unlock()
	minted := texts.Mint()
	s.live[minted.Prefix] = liveKey{
		identity: NewIdentity(llm.Caller{KeyID: uuid.NewString(), Name: name}, nil),
		hash:     minted.Hash(), left: ttl,
	}
	s.minted[minted.Prefix] = time.Now()
	return minted
}

func (s *shelf) set(change func(*shelf)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *shelf) away(err error) { s.set(func(s *shelf) { s.err = err }) }

// hold makes look-ups hang, after they have read, until release.
func (s *shelf) hold() (release func()) {
	held := make(chan struct{})
	s.set(func(s *shelf) { s.held = held })
	return sync.OnceFunc(func() {
		s.set(func(s *shelf) { s.held = nil })
		close(held)
	})
}

// revoke ends a key as another gateway does.
func (s *shelf) revoke(prefix string) {
	s.set(func(s *shelf) {
		delete(s.live, prefix)
		s.revoked[prefix] = time.Now()
	})
}

func (s *shelf) FindLiveKey(ctx context.Context, prefix string) (liveKey, error) {
	s.lookUps.Add(1)
	s.mu.Lock()
	s.asked[prefix]++
	key, found := s.live[prefix]
	err, held := s.err, s.held
	s.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return liveKey{}, ctx.Err()
		}
	}
	switch {
	case err != nil:
		return liveKey{}, err
	case !found:
		return liveKey{}, ErrNotFound
	default:
		return key, nil
	}
}

func (s *shelf) ListChanged(_ context.Context, within time.Duration) (minted []proof, revoked []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for prefix, at := range s.revoked {
		if time.Since(at) <= within {
			revoked = append(revoked, prefix)
		}
	}
	for prefix, key := range s.live {
		if time.Since(s.minted[prefix]) <= within {
			minted = append(minted, proof{prefix, key.hash})
		}
	}
	return minted, revoked, s.err
}

func (s *shelf) ListIssued(context.Context, int32) ([]proof, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []proof
	for prefix, key := range s.live {
		all = append(all, proof{prefix, key.hash})
	}
	return all, s.err
}

func (s *shelf) InsertKey(context.Context, newKey) (Key, error) { panic("not asked for") }
func (s *shelf) ListKeys(context.Context) ([]Key, error)        { panic("not asked for") }
func (s *shelf) RevokeKey(context.Context, string) (Key, bool, error) {
	panic("not asked for")
}

var (
	somebody = netip.MustParseAddr("192.0.2.7")
	lasting  = Settings{CacheTTL: time.Minute, OutageTTL: 24 * time.Hour}
)

// followed is a gateway's keys over a shelf, which stop with the test.
func followed(t *testing.T, s *shelf) *Keys {
	t.Helper()
	k := New(lasting, s, slog.New(slog.DiscardHandler))
	k.Start()
	t.Cleanup(func() {
		for range 2 {
			if err := k.Stop(context.Background()); err != nil {
				t.Errorf("stop: %v", err)
			}
		}
	})
	return k
}

// verified returns what Verify says of a key of somebody.
func verified(t *testing.T, k *Keys, given credential.Text) error {
	t.Helper()
	who, err := k.Verify(t.Context(), given.Whole(), somebody)
	if err == nil && who.KeyID == "" {
		t.Error("a key that is good belongs to nobody")
	}
	return err
}

// want complains when Verify says something else.
func want(t *testing.T, when string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		t.Errorf("%s: got %v, want %v", when, got, want)
	}
}

// PublicOf is the beginning of the key that a proof is of.
func PublicOf(p proof) string { return texts.Public(p.prefix) }
