package operators

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/credential"
)

// texts are what operators hold in their hands.
var texts = credential.NewKind("bwo_")

// tokenStore keeps tokens. An error that it calls unavailable may pass.
type tokenStore interface {
	InsertToken(ctx context.Context, t NewToken) (Token, error)
	FindLiveToken(ctx context.Context, prefix string) (LiveToken, error)
	ListTokens(ctx context.Context) ([]Token, error)
	RevokeToken(ctx context.Context, idOrPrefix string) (t Token, already bool, err error)
	Unavailable(err error) bool
}

// NewToken is a token to be kept.
type NewToken struct {
	ID     uuid.UUID
	Name   string
	Role   Role
	Prefix string
	Hash   []byte        // of the secret
	TTL    time.Duration // 0 = for ever
}

// LiveToken is what a token is checked against.
type LiveToken struct {
	Operator Operator
	Hash     []byte
	Left     time.Duration // of its time; negative = for ever
}

// Tokens mints, lists, revokes and checks operator tokens.
type Tokens struct {
	store tokenStore

	mu      sync.Mutex
	checked map[string]check // by prefix; only tokens that were live when they were checked
}

// NewTokens returns the tokens of a store, which a *Repository is.
func NewTokens(store tokenStore) *Tokens {
	return &Tokens{store: store, checked: map[string]check{}}
}

// Create mints a token that lives for ttl, for ever when that is 0, and returns
// it with its text, which nobody can show again. Returns ErrInvalidName, or
// ErrNameTaken if a live token has the name.
func (t *Tokens) Create(ctx context.Context, name string, role Role, ttl time.Duration) (Token, string, error) {
	if err := checkName(name); err != nil {
		return Token{}, "", err
	}
	if role != RoleViewer && role != RoleOperator {
		return Token{}, "", fmt.Errorf("role %q is neither %s nor %s", role, RoleViewer, RoleOperator)
	}
	minted := texts.Mint()
	kept, err := t.store.InsertToken(ctx, NewToken{
		ID: uuid.Must(uuid.NewV7()), Name: name, Role: role, Prefix: minted.Prefix, Hash: minted.Hash(), TTL: ttl,
	})
	if err != nil {
		return Token{}, "", err
	}
	return kept, minted.Whole(), nil
}

// List returns every token there ever was, oldest first.
func (t *Tokens) List(ctx context.Context) ([]Token, error) { return t.store.ListTokens(ctx) }

// Revoke ends a token that is named by its id, its prefix, with or without the
// beginning that all have, or its whole text. It reports whether it was revoked
// already; then it stays so since when it was. Returns ErrTokenNotFound.
func (t *Tokens) Revoke(ctx context.Context, named string) (revoked Token, already bool, err error) {
	if id, err := uuid.Parse(named); err == nil {
		named = id.String() // as it is kept, however it was written
	}
	return t.store.RevokeToken(ctx, texts.Named(named))
}

// checkName refuses names that would pass for somebody else in the history of a
// circuit.
func checkName(name string) error {
	if err := credential.CheckName(name); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidName, err)
	}
	if strings.EqualFold(name, ActorLocal) || strings.EqualFold(name, breaker.ActorBreaker) {
		return fmt.Errorf("%w: %q is what the gateway calls its own doings", ErrInvalidName, name)
	}
	return nil
}
