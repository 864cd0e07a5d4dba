package keys

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/credential"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Wanted is a key that somebody asks for.
type Wanted struct {
	Name           string
	Owner          string   // may be empty
	Configurations []string // nil = everything
	Limits         llm.Limits
	TTL            time.Duration // 0 = for ever
}

// newKey is a key to be kept.
type newKey struct {
	Wanted
	ID     uuid.UUID
	Prefix string
	Hash   []byte // of the secret
}

// Create mints a key and returns it with its text, which nobody can show again.
// Returns ErrInvalidKey, or ErrNameTaken if a live key has the name.
func (k *Keys) Create(ctx context.Context, w Wanted) (Key, string, error) {
	if err := w.check(); err != nil {
		return Key{}, "", fmt.Errorf("%w: %w", ErrInvalidKey, err)
	}
	if w.Configurations != nil {
		named := append([]string{}, w.Configurations...) // none at all is not everything
		slices.Sort(named)
		w.Configurations = slices.Compact(named)
	}
	minted := texts.Mint()
	kept, err := k.store.InsertKey(ctx, newKey{Wanted: w, ID: uuid.Must(uuid.NewV7()), Prefix: minted.Prefix, Hash: minted.Hash()})
	if err != nil {
		return Key{}, "", err
	}
	k.issued.add(proof{minted.Prefix, minted.Hash()})
	return kept, minted.Whole(), nil
}

// List returns every key there ever was, oldest first.
func (k *Keys) List(ctx context.Context) ([]Key, error) { return k.store.ListKeys(ctx) }

// Revoke ends a key that is named by its id, its prefix, with or without the
// beginning that all have, or its whole text: at once here, and within a second
// on every other gateway. It reports whether it was revoked already; then it
// stays so since when it was. Returns ErrNotFound.
func (k *Keys) Revoke(ctx context.Context, named string) (revoked Key, already bool, err error) {
	named = texts.Named(named)
	if id, err := uuid.Parse(named); err == nil {
		named = id.String() // as it is kept, however it was written
	}
	revoked, already, err = k.store.RevokeKey(ctx, named)
	if err == nil {
		k.bury(texts.Named(revoked.Prefix), time.Now())
	}
	return revoked, already, err
}

// The bounds of what a key is given.
const (
	maxOwner          = 200 // characters
	maxConfigurations = 200
	maxModel          = 300 // bytes of what may be named in "model"
	maxTTL            = 100 * 365 * 24 * time.Hour
)

func (w Wanted) check() error {
	if err := credential.CheckName(w.Name); err != nil {
		return fmt.Errorf("the name %w", err)
	}
	switch {
	case utf8.RuneCountInString(w.Owner) > maxOwner || !readable(w.Owner):
		return fmt.Errorf("the owner must be one line of up to %d characters", maxOwner)
	case w.TTL < 0 || w.TTL > 0 && w.TTL < time.Second || w.TTL > maxTTL:
		return fmt.Errorf("a key lives from 1s to 100 years, or for ever, not for %s", w.TTL)
	case len(w.Configurations) > maxConfigurations:
		return fmt.Errorf("a key may name up to %d configurations", maxConfigurations)
	}
	for _, model := range w.Configurations {
		if model == "" || len(model) > maxModel || !readable(model) {
			return fmt.Errorf("%q is no name of a configuration or of provider/model", model)
		}
	}
	return CheckLimits(w.Limits)
}

// readable reports whether a text is what it looks like, on one line.
func readable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
	})
}
