package operators_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/operators"
)

var errStoreAway = errors.New("the store is away")

// drawer keeps tokens in memory; it can be away, and hang.
type drawer struct {
	mu      sync.Mutex
	tokens  map[string]operators.LiveToken
	away    bool
	hangs   bool
	lookups int
}

func (d *drawer) InsertToken(_ context.Context, n operators.NewToken) (operators.Token, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := n.TTL
	if left == 0 {
		left = -1
	}
	d.tokens[n.Prefix] = operators.LiveToken{Operator: operators.Operator{Name: n.Name, Role: n.Role}, Hash: n.Hash, Left: left}
	return operators.Token{ID: uuid.Max, Name: n.Name, Role: n.Role, Prefix: n.Prefix}, nil
}

func (d *drawer) FindLiveToken(ctx context.Context, prefix string) (operators.LiveToken, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lookups++
	if d.hangs {
		<-ctx.Done()
		return operators.LiveToken{}, errors.Join(errStoreAway, context.Cause(ctx))
	}
	if d.away {
		return operators.LiveToken{}, errStoreAway
	}
	live, ok := d.tokens[prefix]
	if !ok {
		return operators.LiveToken{}, operators.ErrTokenNotFound
	}
	return live, nil
}

func (d *drawer) ListTokens(context.Context) ([]operators.Token, error) { return nil, nil }

func (d *drawer) RevokeToken(_ context.Context, prefix string) (operators.Token, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tokens, prefix)
	return operators.Token{}, false, nil
}

func (d *drawer) Unavailable(err error) bool { return errors.Is(err, errStoreAway) }

// counter of look-ups since the last time it was asked.
func (d *drawer) taken() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.lookups
	d.lookups = 0
	return n
}

// checking is a token over a drawer, in a bubble of fake time.
type checking struct {
	*testing.T
	*drawer
	tokens *operators.Tokens
	prefix string
	text   string
}

func withToken(t *testing.T, ttl time.Duration, test func(c *checking)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &drawer{tokens: map[string]operators.LiveToken{}}
		c := &checking{T: t, drawer: d, tokens: operators.NewTokens(d)}
		token, text := create(t, c.tokens, "ada", operators.RoleOperator, ttl)
		c.prefix, c.text = token.Prefix, text
		test(c)
	})
}

func (c *checking) verify(text string, want error) {
	c.Helper()
	who, err := c.tokens.Verify(c.Context(), text)
	if !errors.Is(err, want) || (err == nil && who.Name != "ada") {
		c.Errorf("verify: got %+v, %v; want %v", who, err, want)
	}
}

func (c *checking) pass(d time.Duration) { <-time.After(d) }

func (c *checking) wantLookups(n int) {
	c.Helper()
	if got := c.taken(); got != n {
		c.Errorf("%d look-ups, want %d", got, n)
	}
}

func TestATokenIsLookedUpEveryFewSeconds(t *testing.T) {
	withToken(t, 0, func(c *checking) {
		for range 100 {
			c.verify(c.text, nil)
		}
		c.wantLookups(1)
		c.pass(5 * time.Second)
		c.verify(c.text, nil)
		c.wantLookups(1)
	})
}

func TestARevocationArrivesWithinSeconds(t *testing.T) {
	withToken(t, 0, func(c *checking) {
		c.verify(c.text, nil)
		if _, _, err := c.RevokeToken(c.Context(), c.prefix); err != nil {
			c.Fatal(err)
		}
		c.pass(5 * time.Second)
		c.verify(c.text, operators.ErrInvalidToken)
		// Also when the database leaves right after that was seen.
		c.away = true
		c.verify(c.text, operators.ErrUnchecked)
	})
}

func TestATokenThatWasSeenIsGoodWhileTheDatabaseIsAway(t *testing.T) {
	withToken(t, 0, func(c *checking) {
		c.verify(c.text, nil)
		c.away = true
		c.pass(23 * time.Hour)
		c.verify(c.text, nil)
		c.pass(2 * time.Hour)
		c.verify(c.text, operators.ErrUnchecked)
		c.away = false
		c.verify(c.text, nil)
	})
}

func TestATokenThatWasNotSeenCannotBeCheckedWhileTheDatabaseIsAway(t *testing.T) {
	withToken(t, 0, func(c *checking) {
		c.away = true
		c.verify(c.text, operators.ErrUnchecked)
		c.verify("no token at all", operators.ErrInvalidToken) // which needs no look-up
		c.away = false
		c.verify(c.text, nil)
	})
}

// The secret of a token never changes, so a wrong one is wrong, database or not.
func TestAWrongSecretOfAKnownTokenIsNotLookedUp(t *testing.T) {
	withToken(t, 0, func(c *checking) {
		c.verify(c.text, nil)
		c.taken()
		c.pass(time.Hour)
		last := map[bool]string{true: "1", false: "0"}[c.text[len(c.text)-1] == '0']
		c.verify(c.text[:len(c.text)-1]+last, operators.ErrInvalidToken)
		c.away = true
		c.verify(c.text[:len(c.text)-1]+last, operators.ErrInvalidToken)
		c.wantLookups(0)
	})
}

func TestATokenExpiresOnTime(t *testing.T) {
	withToken(t, 7*time.Second, func(c *checking) {
		c.verify(c.text, nil)
		c.pass(6 * time.Second)
		c.away = true
		c.verify(c.text, nil)
		c.pass(time.Second)
		c.verify(c.text, operators.ErrInvalidToken)
	})
}

// A database that hangs holds up one request now and then, not every one.
func TestAHangingDatabaseIsNotWaitedForByAll(t *testing.T) {
	withToken(t, 0, func(c *checking) {
		c.verify(c.text, nil)
		c.hangs = true
		c.pass(5 * time.Second)
		c.taken()
		begun := time.Now()
		for range 100 {
			c.verify(c.text, nil)
		}
		c.wantLookups(1)
		if took := time.Since(begun); took > 3*time.Second {
			c.Errorf("100 requests took %s", took)
		}
	})
}

// Who leaves while the token is looked up says nothing about it.
func TestACallerWhoLeavesIsNotToldTheTokenIsWrong(t *testing.T) {
	withToken(t, 0, func(c *checking) {
		c.hangs = true
		ctx, leave := context.WithCancel(c.Context())
		leave()
		if _, err := c.tokens.Verify(ctx, c.text); errors.Is(err, operators.ErrInvalidToken) || err == nil {
			c.Errorf("got %v", err)
		}
	})
}
