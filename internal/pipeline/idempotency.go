package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// KeyStore keeps, for all replicas, who works under an idempotency key and what
// came of it.
type KeyStore interface {
	// Claim asks for a key. Awaited is the token of a call whose end the caller has
	// waited for; waits asks to be told of the end of the one that is at it. A store
	// that is late for once is asked again: it may have given the key already.
	Claim(ctx context.Context, a KeyAsker, awaited string, waits bool) (KeyClaim, error)
	// LetGo gives back, in the background, a key that a claim may have got without
	// its caller's knowing. It does not wait, and touches nobody else's claim.
	LetGo(a KeyAsker)
	// Hold keeps the key for its owner until stop.
	Hold(a KeyAsker) (stop func())
	// Keep stores the owner's answer for a time; false when another owner has come.
	Keep(ctx context.Context, a KeyAsker, answer []byte, ttl time.Duration) (bool, error)
	// Mark keeps that the answer is too large to be stored; false as Keep.
	Mark(ctx context.Context, a KeyAsker, ttl time.Duration) (bool, error)
	// Free gives the key back, and those who wait what they are to know.
	Free(ctx context.Context, a KeyAsker, failure []byte) error
	// Heard holds a token each time that the end of a call is told, until leave.
	Heard(name string) (heard <-chan struct{}, leave func())
}

// KeyAsker is who asks for a key: its hashed name, the fingerprint of the request,
// and a token that is new for every call, which is its run's id.
type KeyAsker struct{ Name, Print, Token string }

// KeyClaim is how a key stands.
type KeyClaim struct {
	State   KeyState
	Token   string        // of the call that it is said of
	Left    time.Duration // KeyRunning: of its lease
	Payload []byte        // KeyDone: the answer. KeyFailed: what it was freed with
	Unsure  bool          // the store may give the key to who asked, later; told with an error, too
}

// KeyState is a closed set.
type KeyState string

const (
	KeyOwned     KeyState = "owned"
	KeyTaken     KeyState = "taken" // owned, after an owner that has stopped renewing
	KeyRunning   KeyState = "running"
	KeyMismatch  KeyState = "mismatch"
	KeyDone      KeyState = "done"
	KeyOversized KeyState = "oversized" // the awaited call has an answer that is not kept
	KeyFailed    KeyState = "failed"    // the awaited call failed
)

// What becomes of calls with a key: the labels of the metric.
const (
	KeyResultStored      = "stored"
	KeyResultReplayed    = "replayed"
	KeyResultJoined      = "joined"
	KeyResultConflict    = "conflict"
	KeyResultMismatch    = "mismatch"
	KeyResultOversized   = "oversized"   // its answer is too large to be kept
	KeyResultFenced      = "fenced"      // its answer was not kept: another owner had come
	KeyResultUnavailable = "unavailable" // the store was away when it was asked
)

// KeyResults lists them all.
func KeyResults() []string {
	return []string{
		KeyResultStored, KeyResultReplayed, KeyResultJoined, KeyResultConflict, KeyResultMismatch,
		KeyResultOversized, KeyResultFenced, KeyResultUnavailable,
	}
}

// IdempotencyConfig says how keys are treated.
type IdempotencyConfig struct {
	TTL       time.Duration // how long an answer is kept
	Reject    bool          // a call under a key that is at work is refused, and does not wait
	Wait      time.Duration // how long it waits otherwise
	FailOpen  bool          // calls go on while the store is away
	MaxResult int           // bytes of an answer that is kept
}

// Idempotency makes one call of all that come under one key: the first runs, those
// beside it wait for its answer, and those after it are given it again.
type Idempotency struct {
	IdempotencyConfig
	keys    KeyStore
	flights *Flights
	count   func(result string)
}

// NewIdempotency returns the middleware. The flights are those of all runtimes of
// this process; count is told of every result.
func NewIdempotency(cfg IdempotencyConfig, keys KeyStore, flights *Flights, count func(result string)) *Idempotency {
	return &Idempotency{IdempotencyConfig: cfg, keys: keys, flights: flights, count: count}
}

// Name is "idempotency".
func (i *Idempotency) Name() string { return "idempotency" }

// Priority puts it outside everything that costs money or time.
func (i *Idempotency) Priority() int { return priorityIdempotency }

// Wrap leaves calls without a key alone.
func (i *Idempotency) Wrap(next Handler) Handler {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		if call.IdempotencyKey == "" {
			return next(ctx, call, emit)
		}
		k := &keyed{claimed: claimed{i, askerOf(call)}, ctx: ctx, call: call, emit: emit, next: next}
		defer k.rest()
		return k.run()
	}
}

// claimed is the key of one call.
type claimed struct {
	*Idempotency
	asker KeyAsker
}

// keyed is one call with a key on its way.
type keyed struct {
	claimed
	ctx  context.Context
	call *llm.Call
	emit llm.Emit
	next Handler

	awaited string      // the token of the call whose end is waited for
	patient *time.Timer // runs while the call waits; nil before

	unsure bool // a claim of the call's may be carried out yet
	stored bool // the store has been told of an answer, or will be
}

// askerOf names a key by a hash of whose it is, so that two callers never meet and
// no store holds what a caller wrote.
func askerOf(call *llm.Call) KeyAsker {
	name, print := sha256.New(), sha256.Sum256(call.Body)
	for _, part := range []string{call.Caller.KeyID, string(call.Operation), string(call.Dialect), call.IdempotencyKey} {
		name.Write([]byte(part))
		name.Write([]byte{0}) // no part can hold one
	}
	return KeyAsker{Name: hex.EncodeToString(name.Sum(nil)[:16]), Print: hex.EncodeToString(print[:]), Token: call.RunID.String()}
}

// run joins the call that is under way on this replica, or finds out for all that
// come here how the key stands.
func (k *keyed) run() (*llm.Result, error) {
	for {
		f, first := k.flights.enter(k.asker)
		if first {
			return k.lead(f)
		}
		result, err := k.join(f)
		if !errors.Is(err, errAgain) {
			return result, err
		}
		if f.awaited != "" {
			k.awaited = f.awaited
		}
	}
}

// lead asks the store until the key is this call's, or its answer is there.
func (k *keyed) lead(f *flight) (*llm.Result, error) {
	defer k.flights.abandon(f) // unless it has ended well
	heard, leave := (<-chan struct{})(nil), func() {}
	defer func() { leave() }()
	for {
		claim, err := k.claim()
		if err != nil {
			k.count(KeyResultUnavailable)
			if k.FailOpen {
				return k.own(f)
			}
			return nil, &llm.Failure{Class: llm.ClassIdempotency, Reason: llm.ReasonReplayUnavailable, RetryAfter: retrySoon, Err: err}
		}
		if claim.State != KeyRunning || k.Reject {
			return k.settled(f, claim)
		}
		f.awaited, k.awaited = claim.Token, claim.Token
		f.confirm(false)
		if heard == nil { // asked once more: it may have ended before anybody listened
			heard, leave = k.keys.Heard(k.asker.Name)
			continue
		}
		if err := k.pause(heard, min(claim.Left+time.Millisecond, keyPoll)); err != nil {
			return nil, err
		}
	}
}

const (
	// keyPoll is how often a call that waits for another replica looks by itself.
	keyPoll = 500 * time.Millisecond
	// retrySoon is what a call is told that came too early, or at a bad moment.
	retrySoon = time.Second
)

// settled acts on how the key stands.
func (k *keyed) settled(f *flight, claim KeyClaim) (*llm.Result, error) {
	switch claim.State {
	case KeyDone:
		a, err := decodeAnswer(claim.Payload)
		if err != nil { // of another version of the gateway
			return k.own(f)
		}
		k.flights.end(f, landing{answer: a})
		k.count(KeyResultReplayed)
		return k.replay(a)
	case KeyFailed:
		if err := decodeFailure(claim.Payload); err != nil {
			k.flights.end(f, landing{err: err})
			k.count(KeyResultJoined)
			return nil, err
		}
		k.awaited = "" // it has left nothing but the key
		return k.lead(f)
	case KeyMismatch:
		return nil, k.mismatch()
	case KeyOversized:
		k.count(KeyResultConflict)
		return nil, tooLarge()
	case KeyRunning:
		return nil, k.conflict()
	default:
		return k.own(f)
	}
}

func (k *keyed) claim() (KeyClaim, error) {
	began := time.Now()
	defer func() { k.call.Signals.UpstreamTime += time.Since(began) }()
	claim, err := k.keys.Claim(k.ctx, k.asker, k.awaited, !k.Reject)
	k.unsure = k.unsure || claim.Unsure
	return claim, err
}

func (k *keyed) mismatch() error {
	k.count(KeyResultMismatch)
	return &llm.Failure{Class: llm.ClassIdempotency, Reason: llm.ReasonKeyReused}
}

func (k *keyed) conflict() error {
	k.count(KeyResultConflict)
	return &llm.Failure{Class: llm.ClassIdempotency, Reason: llm.ReasonKeyInProgress, RetryAfter: retrySoon}
}

// pause waits until something is heard, or for a time. Returns why the call waits
// no longer.
func (k *keyed) pause(heard <-chan struct{}, most time.Duration) error {
	if k.patient == nil {
		k.patient = time.NewTimer(k.Wait)
	}
	began, timer := time.Now(), time.NewTimer(most)
	defer timer.Stop()
	defer func() { k.call.Signals.UpstreamTime += time.Since(began) }()
	select {
	case <-heard:
		return nil
	case <-timer.C:
		return nil
	case <-k.patient.C:
		return k.conflict()
	case <-k.left():
		return k.leaves()
	case <-k.ctx.Done():
		return llm.Cancelled(k.ctx, llm.Target{})
	}
}

// rest ends the call. A key that it may come to hold without knowing would be
// nobody's for as long as a lease: the store may carry out a claim late, even after
// the call that it was for has failed and freed the key.
func (k *keyed) rest() {
	if k.patient != nil {
		k.patient.Stop()
	}
	if k.unsure && !k.stored {
		k.keys.LetGo(k.asker)
	}
}

// left is closed when the client does not wait any longer.
func (k *keyed) left() <-chan struct{} {
	if k.call.Left == nil {
		return nil
	}
	return k.call.Left.Done
}

// leaves is the end of a call that only waited: a limit of its caller's shortens
// the wait, and one whose client has gone has nothing to wait for.
func (k *keyed) leaves() error {
	cause := k.call.Left.Cause()
	if errors.Is(cause, llm.ErrCallerTimeout) {
		return k.conflict()
	}
	return &llm.Failure{Class: llm.ClassCancelled, Reason: llm.CancelReason(cause), Err: cause}
}
