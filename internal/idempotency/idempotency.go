// Package idempotency keeps, for all replicas, who works under an idempotency key
// and what came of it: a lease that its owner renews, and then an answer, or the
// failure that set the key free. It knows neither calls nor answers: names,
// fingerprints and bytes are all it is given, and names hold no key of a caller's.
package idempotency

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

// State is how a key stands for who asks for it.
type State string

const (
	// Owned: the key is the caller's, who renews, and stores or frees.
	Owned State = codeOwned
	// Taken is Owned of a key whose last owner has stopped renewing.
	Taken State = codeTaken
	// Running: another call is at it.
	Running State = codeRunning
	// Mismatch: the key belongs to another request.
	Mismatch State = codeMismatch
	// Done: here is the answer.
	Done State = codeDone
	// Oversized: the claim that was awaited has an answer that was too large to be
	// kept. Who asks without waiting for it owns the key.
	Oversized State = codeOversized
	// Failed: the claim that was awaited failed. The key is not the caller's.
	Failed State = codeFailed
)

const (
	// defaultLease is how long a key is held for an owner that is not heard of.
	defaultLease = 30 * time.Second
	// failureKept is how long those who wait may find out why a claim failed.
	failureKept = time.Minute
	// chunk is how much goes to the store at a time: a large answer must not take
	// longer than one step may.
	chunk = 256 << 10
	// chunkMargin is how much longer than its record a chunk lives.
	chunkMargin = time.Minute
)

// Config says how New makes a Store.
type Config struct {
	Lease time.Duration // 0 = 30s
}

// Store keeps keys on a cache.
type Store struct {
	cache cache.Cache
	lease time.Duration
	hub   hub

	releases releases

	missing atomic.Int64 // since when the server has not answered, in Unix nanoseconds; 0 = it has
}

// New returns a store on a cache. Start has it hear what other replicas tell, and
// let go of keys.
func New(cfg Config, c cache.Cache) *Store {
	if cfg.Lease <= 0 {
		cfg.Lease = defaultLease
	}
	return &Store{cache: c, lease: cfg.Lease, hub: newHub(), releases: newReleases()}
}

// Asker is who asks for a key.
type Asker struct {
	Name  string // of the key, and of whoever's it is; no spaces
	Print string // of the request; no spaces
	Token string // new for every call; no spaces
}

// Claim is how a key stands.
type Claim struct {
	State   State
	Token   string        // of the call that it is said of
	Left    time.Duration // Running: of its lease
	Payload []byte        // Done: the answer. Failed: what it was freed with

	// Unsure is set, with an error, too, when the store was asked at least once and
	// did not say what came of it: the key may be the caller's later. Who does not
	// want it then calls LetGo.
	Unsure bool
}

// Claim asks for a key. Awaited is the token of a call whose end the caller has
// waited for, and waits whether the caller wants to be told of the end of the one
// that runs. An answer of which a part is gone is as good as none. A server that
// stalls for a moment is waited for, since it may hold the answer; one that has been
// away for longer is not.
func (s *Store) Claim(ctx context.Context, a Asker, awaited string, waits bool) (Claim, error) {
	began, unsure := time.Now(), false
	for {
		c, err := s.claimOnce(ctx, a, awaited, waits)
		unsure = unsure || err != nil && !errors.Is(err, cache.ErrRefused)
		c.Unsure = unsure
		if !errors.Is(err, cache.ErrUnavailable) || errors.Is(err, cache.ErrRefused) || time.Since(began) > patience || !s.stalls(began) {
			return c, err
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			return c, err
		}
	}
}

const (
	patience   = 250 * time.Millisecond // how long one claim waits for a server that stalls
	retryEvery = 10 * time.Millisecond
	stallLimit = time.Second // after it the server is away
)

// stalls reports whether the server has been missing for no longer than a stall
// takes.
func (s *Store) stalls(began time.Time) bool {
	s.missing.CompareAndSwap(0, began.UnixNano())
	return time.Since(time.Unix(0, s.missing.Load())) < stallLimit
}

func (s *Store) claimOnce(ctx context.Context, a Asker, awaited string, waits bool) (Claim, error) {
	c, chunks, err := s.claim(ctx, a, awaited, "", waits)
	if err != nil || c.State != Done || chunks == 0 {
		return c, err
	}
	c.Payload, err = s.read(ctx, a.Name, c.Token, chunks)
	if errors.Is(err, cache.ErrNotFound) {
		c, _, err = s.claim(ctx, a, awaited, c.Token, waits)
	}
	return c, err
}

func (s *Store) claim(ctx context.Context, a Asker, awaited, lost string, waits bool) (Claim, int, error) {
	wanted := "0"
	if waits {
		wanted = "1"
	}
	values, err := s.step(ctx, stepClaim, a, s.leaseText(), awaited, lost, wanted)
	if err != nil {
		return Claim{}, 0, err
	}
	left, err := strconv.ParseInt(values[2], 10, 64)
	chunks, err2 := strconv.Atoi(values[3])
	if err := errors.Join(err, err2); err != nil {
		return Claim{}, 0, fmt.Errorf("read an idempotency record: %w", err)
	}
	return Claim{State: State(values[0]), Token: values[1], Left: time.Duration(left) * time.Millisecond, Payload: []byte(values[4])}, chunks, nil
}

func (s *Store) read(ctx context.Context, name, token string, chunks int) ([]byte, error) {
	var whole []byte
	for i := range chunks {
		part, err := s.cache.Get(ctx, chunkKey(name, token, i))
		if err != nil {
			return nil, err
		}
		whole = append(whole, part...)
	}
	return whole, nil
}

// Keep stores the answer of an owner for a time. Returns false when another owner
// has come meanwhile, because this one was not heard of for too long.
func (s *Store) Keep(ctx context.Context, a Asker, answer []byte, ttl time.Duration) (bool, error) {
	if len(answer) <= chunk {
		return s.store(ctx, a, stateDone, 0, ttl, answer)
	}
	chunks := 0
	for part := answer; len(part) > 0; chunks++ {
		n := min(len(part), chunk)
		if err := s.cache.Set(ctx, chunkKey(a.Name, a.Token, chunks), part[:n], ttl+chunkMargin); err != nil {
			return false, err
		}
		part = part[n:]
	}
	return s.store(ctx, a, stateDone, chunks, ttl, nil)
}

// Mark keeps, in place of an answer that is too large, to which request the key
// belongs.
func (s *Store) Mark(ctx context.Context, a Asker, ttl time.Duration) (bool, error) {
	return s.store(ctx, a, stateOversized, 0, ttl, nil)
}

func (s *Store) store(ctx context.Context, a Asker, state string, chunks int, ttl time.Duration, payload []byte) (bool, error) {
	values, err := s.step(ctx, stepStore, a, state, strconv.Itoa(chunks), strconv.FormatInt(max(ttl.Milliseconds(), 1), 10), string(payload))
	return err == nil && values[0] == codeStored, err
}

// Free gives the key back. Those who wait are told how the call failed; with
// nothing to tell, the next of them has the key.
func (s *Store) Free(ctx context.Context, a Asker, failure []byte) error {
	_, err := s.free(ctx, a, failure)
	return err
}

// free reports whether the key was the owner's.
func (s *Store) free(ctx context.Context, a Asker, failure []byte) (bool, error) {
	values, err := s.step(ctx, stepFree, a, strconv.FormatInt(failureKept.Milliseconds(), 10), string(failure))
	return err == nil && values[0] == codeFreed, err
}

// renew says that the owner is alive. Returns false when the key is not its own
// any more.
func (s *Store) renew(ctx context.Context, a Asker) (bool, error) {
	values, err := s.step(ctx, stepRenew, a, s.leaseText())
	return err == nil && values[0] == codeRenewed, err
}

func (s *Store) step(ctx context.Context, step string, a Asker, args ...string) ([]string, error) {
	values, err := s.cache.Run(ctx, keyScript, []string{recordKey(a.Name)}, append([]string{step, "", a.Token, a.Print, a.Name}, args...)...)
	if err == nil {
		s.missing.Store(0)
	}
	if err == nil && len(values) != 5 {
		err = errors.New("read an idempotency record: the store did not answer with five values")
	}
	return values, err
}

func (s *Store) leaseText() string { return strconv.FormatInt(s.lease.Milliseconds(), 10) }

func recordKey(name string) string { return "ik:{" + name + "}" }

func chunkKey(name, token string, i int) string {
	return "ik:{" + name + "}:" + token + ":" + strconv.Itoa(i)
}
