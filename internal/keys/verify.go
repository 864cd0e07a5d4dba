package keys

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/breakwater-llm/breakwater/internal/credential"
)

const (
	// lookUpTimeout bounds one look-up, and with it how long a caller waits whose
	// key is not known.
	lookUpTimeout = 3 * time.Second
	// refreshPause is how long a known key is not looked up again after a look-up
	// that told nothing.
	refreshPause = 5 * time.Second
)

// store keeps keys.
type store interface {
	InsertKey(ctx context.Context, k newKey) (Key, error)
	// FindLiveKey returns ErrNotFound for a key that is none, or not any more.
	FindLiveKey(ctx context.Context, prefix string) (liveKey, error)
	ListKeys(ctx context.Context) ([]Key, error)
	RevokeKey(ctx context.Context, idOrPrefix string) (k Key, already bool, err error)
	// ListChanged returns what was minted and revoked within a time that ends now.
	ListChanged(ctx context.Context, within time.Duration) (minted []proof, revoked []string, err error)
	// ListIssued returns the newest of the live keys.
	ListIssued(ctx context.Context, atMost int32) ([]proof, error)
}

// liveKey is what a key is checked against.
type liveKey struct {
	identity *Identity
	hash     []byte
	left     time.Duration // of its time; negative = for ever
}

// Settings are for how long a key is known by heart.
type Settings struct {
	CacheTTL  time.Duration // a verified key is not looked up again for this long
	OutageTTL time.Duration // and stays valid for this long while the database is away
}

// Keys mints, lists, revokes and checks API keys.
type Keys struct {
	store    store
	log      *slog.Logger
	begun    time.Time
	settings atomic.Pointer[Settings]

	known   sync.Map   // of prefix and *entry; read without a lock
	mu      sync.Mutex // held to write into known
	lookUps singleflight.Group
	issued  *issued
	unknown *strangers
	guesses *guesses

	ctx  context.Context // of the work in the background
	stop context.CancelFunc
	done sync.WaitGroup
}

// New returns the keys of a store, which a *Repository is. Start makes it follow
// what is minted and revoked elsewhere.
func New(s Settings, store store, log *slog.Logger) *Keys {
	k := &Keys{store: store, log: log, begun: time.Now(), issued: newIssued(), unknown: newStrangers(), guesses: newGuesses()}
	k.ctx, k.stop = context.WithCancel(context.Background())
	k.Reconfigure(s)
	return k
}

// Reconfigure changes the settings from now on.
func (k *Keys) Reconfigure(s Settings) { k.settings.Store(&s) }

// entry is what is known of a key. All but again stays as it is.
type entry struct {
	identity *Identity
	hash     []byte
	buried   bool         // revoked, expired or gone: worth nothing, for ever
	at       time.Time    // when that was certain
	expires  time.Time    // zero = never
	again    atomic.Int64 // when it is looked up again, since Keys.begun
}

// worth is who calls, unless the key's time is up.
func (e *entry) worth(now time.Time) (*Identity, error) {
	if e.buried || !e.expires.IsZero() && !now.Before(e.expires) {
		return nil, ErrInvalid
	}
	return e.identity, nil
}

// Verify returns who a key's text belongs to; client is who sent it. Returns
// ErrInvalid for a key that is wrong, expired or revoked, ErrUnchecked while the
// database is away and the key was not seen lately, and a *ThrottledError for a
// text that is no key, of a client that has tried too many. A key that is known is
// checked without waiting for anybody.
func (k *Keys) Verify(ctx context.Context, text string, client netip.Addr) (*Identity, error) {
	given, ok := texts.Parse(text)
	if !ok {
		return nil, ErrInvalid
	}
	now := time.Now()
	e := k.recall(given.Prefix)
	proven := e != nil && !e.buried && given.Proves(e.hash)
	switch settings := k.settings.Load(); {
	case e != nil && e.buried:
		return nil, ErrInvalid
	// What is known for longer than CacheTTL is looked up again, and holds
	// meanwhile: that it was revoked is heard of otherwise.
	case proven && now.Sub(e.at) < max(settings.OutageTTL, settings.CacheTTL):
		k.refreshIfDue(given.Prefix, e, now)
		return e.worth(now)
	case proven || k.issued.holds(given):
		return k.ask(ctx, given)
	default:
		return k.guess(ctx, given, client)
	}
}

func (k *Keys) recall(prefix string) *entry {
	if e, ok := k.known.Load(prefix); ok {
		return e.(*entry)
	}
	return nil
}

// refreshIfDue lets one of those who use a key look it up again, in the
// background.
func (k *Keys) refreshIfDue(prefix string, e *entry, now time.Time) {
	due := e.again.Load()
	if int64(now.Sub(k.begun)) < due || !e.again.CompareAndSwap(due, int64(now.Add(refreshPause).Sub(k.begun))) {
		return
	}
	k.done.Go(func() { _, _ = k.lookUp(k.ctx, prefix) }) // what it finds out is remembered
}

// ask looks a key up that was minted: its secret is the right one.
func (k *Keys) ask(ctx context.Context, given credential.Text) (*Identity, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookUpTimeout, ErrUnchecked)
	defer cancel()
	e, err := k.lookUp(ctx, given.Prefix)
	return k.answer(given, e, err)
}

// guess looks a text up that may be none. A wrong secret takes the same way as a
// prefix that there is not, so that nobody learns which there are.
func (k *Keys) guess(ctx context.Context, given credential.Text, client netip.Addr) (*Identity, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookUpTimeout, ErrUnchecked)
	defer cancel()
	if k.unknown.has(given, time.Now()) {
		return nil, ErrInvalid
	}
	guess, err := k.guesses.admit(ctx, client)
	// Somebody else may have asked for the same text meanwhile.
	switch e := k.recall(given.Prefix); {
	case e != nil && (e.buried || given.Proves(e.hash)):
		guess.takeBack()
		return k.answer(given, e, nil)
	case k.unknown.has(given, time.Now()):
		guess.takeBack()
		return nil, ErrInvalid
	case err != nil:
		return nil, err
	}
	e, err := k.lookUp(ctx, given.Prefix)
	identity, err := k.answer(given, e, err)
	switch {
	case err == nil, errors.Is(err, ErrUnchecked):
		guess.takeBack()
	default: // who does not wait for the answer has asked all the same
		guess.count()
	}
	return identity, err
}

// answer is what follows from a look-up.
func (k *Keys) answer(given credential.Text, e *entry, err error) (*Identity, error) {
	now := time.Now()
	switch {
	case err == nil && given.Proves(e.hash):
		return e.worth(now)
	case err == nil, errors.Is(err, ErrNotFound):
		k.unknown.add(given, now)
		return nil, ErrInvalid
	case errors.Is(err, context.Canceled):
		return nil, err
	default:
		return nil, fmt.Errorf("%w: %w", ErrUnchecked, err)
	}
}

// lookUp asks the database for a key, once for all who want to know at a time,
// and remembers what it said. Returns ErrNotFound. Who goes does not end the
// look-up of the others.
func (k *Keys) lookUp(ctx context.Context, prefix string) (*entry, error) {
	found := k.lookUps.DoChan(prefix, func() (any, error) {
		ctx, cancel := context.WithTimeout(k.ctx, lookUpTimeout)
		defer cancel()
		asked := time.Now()
		live, err := k.store.FindLiveKey(ctx, prefix)
		switch {
		case err == nil:
			return k.remember(prefix, live, asked), nil
		case errors.Is(err, ErrNotFound):
			k.forget(prefix, asked)
		}
		return nil, err
	})
	select {
	case result := <-found:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*entry), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// remember keeps what the database said. A revocation that was heard of wins over
// a look-up that began before it.
func (k *Keys) remember(prefix string, live liveKey, asked time.Time) *entry {
	e := &entry{identity: live.identity, hash: live.hash, at: asked}
	e.again.Store(int64(asked.Add(k.settings.Load().CacheTTL).Sub(k.begun)))
	if live.left >= 0 {
		e.expires = asked.Add(live.left)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if was := k.recall(prefix); was != nil && was.buried {
		e.buried = true
	}
	k.known.Store(prefix, e)
	return e
}

// forget keeps that there is no such key, or not any more.
func (k *Keys) forget(prefix string, asked time.Time) {
	if k.recall(prefix) != nil {
		k.bury(prefix, asked)
		return
	}
	k.issued.drop(prefix)
}

// bury makes a key worth nothing, for ever.
func (k *Keys) bury(prefix string, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if was := k.recall(prefix); was == nil || !was.buried {
		k.known.Store(prefix, &entry{buried: true, at: now})
	}
	k.issued.drop(prefix)
}
