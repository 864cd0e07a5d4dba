package operators

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// checkTTL is how long a token is not looked up again, and so how long a
	// revocation takes to reach here at most.
	checkTTL = 5 * time.Second
	// outageTTL is how long a token that was live when it was last looked up is
	// good while the database is away.
	outageTTL = 24 * time.Hour
	// checkTimeout bounds one look-up.
	checkTimeout = 3 * time.Second
	// checkPause is how long a token that is looked up again is taken for what it
	// was meanwhile, so that requests do not all wait for a database that hangs.
	checkPause = checkTimeout + 2*time.Second
)

// check is what the database said of a token, and when.
type check struct {
	operator Operator
	hash     []byte
	at       time.Time // when it was live for certain
	again    time.Time // when it is looked up again
	expires  time.Time // zero = never
}

// Verify returns who a token's text belongs to. Returns ErrInvalidToken for one
// that is wrong, expired or revoked, and ErrUnchecked while the database is
// away and the token was not seen lately. A revocation counts everywhere within
// seconds.
func (t *Tokens) Verify(ctx context.Context, token string) (Operator, error) {
	given, ok := texts.Parse(token)
	if !ok {
		return Operator{}, ErrInvalidToken
	}
	now := time.Now()
	known, seen := t.recall(given.Prefix)
	if seen && !given.Proves(known.hash) {
		return Operator{}, ErrInvalidToken // a secret never changes
	}
	if seen && now.Before(known.again) {
		return known.worth(now)
	}
	seen = seen && now.Sub(known.at) < outageTTL
	if seen {
		t.spare(given.Prefix, now.Add(checkPause))
	}
	live, err := t.lookUp(ctx, given.Prefix)
	switch {
	case err == nil:
		known = t.remember(given.Prefix, live, now)
		if !given.Proves(known.hash) {
			return Operator{}, ErrInvalidToken
		}
		return known.worth(now)
	case errors.Is(err, ErrTokenNotFound):
		t.forget(given.Prefix)
		return Operator{}, ErrInvalidToken
	case !t.store.Unavailable(err):
		return Operator{}, err
	case seen:
		return known.worth(now)
	default:
		return Operator{}, fmt.Errorf("%w: %w", ErrUnchecked, err)
	}
}

// worth is the operator, unless the token's time is up.
func (c check) worth(now time.Time) (Operator, error) {
	if !c.expires.IsZero() && !now.Before(c.expires) {
		return Operator{}, ErrInvalidToken
	}
	return c.operator, nil
}

func (t *Tokens) lookUp(ctx context.Context, prefix string) (LiveToken, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return t.store.FindLiveToken(ctx, prefix)
}

func (t *Tokens) recall(prefix string) (check, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.checked[prefix]
	return c, ok
}

func (t *Tokens) remember(prefix string, live LiveToken, now time.Time) check {
	c := check{operator: live.Operator, hash: live.Hash, at: now, again: now.Add(checkTTL)}
	if live.Left >= 0 {
		c.expires = now.Add(live.Left)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checked[prefix] = c
	return c
}

// spare leaves the database alone until then.
func (t *Tokens) spare(prefix string, then time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, ok := t.checked[prefix]; ok {
		c.again = then
		t.checked[prefix] = c
	}
}

func (t *Tokens) forget(prefix string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.checked, prefix)
}
