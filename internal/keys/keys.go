// Package keys knows which apps may call the gateway, with what key, and what
// each may use. A key is checked against the database once and then known by
// heart, so that calls wait for no database and outlive one that is away. The
// package must not know HTTP, nor what the limits of a key do.
package keys

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/credential"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// texts are what apps hold in their hands.
var texts = credential.NewKind("bw_")

// Public is what may be shown of a text that was given as a key: the beginning
// of one that has the form of a key, else nothing.
func Public(text string) string {
	given, ok := texts.Parse(text)
	if !ok {
		return ""
	}
	return given.Public()
}

// Key is an API key as it is kept, without its secret.
type Key struct {
	ID             uuid.UUID
	Name           string
	Owner          string   // whose it is, in people's words; may be empty
	Prefix         string   // begins the key's text; public
	Configurations []string // what it may name in "model"; nil = everything
	Limits         llm.Limits
	credential.Life
}

// Identity is who calls, and what they may name. Nil is anybody, who may name
// everything.
type Identity struct {
	llm.Caller
	configurations []string // sorted; nil = everything
}

// NewIdentity returns who may name some models; nil = everything.
func NewIdentity(caller llm.Caller, models []string) *Identity {
	models = slices.Clone(models)
	slices.Sort(models)
	return &Identity{Caller: caller, configurations: models}
}

// May reports whether the caller may name a model: a configuration, or
// `provider/model`.
func (i *Identity) May(model string) bool {
	if i == nil || i.configurations == nil {
		return true
	}
	_, found := slices.BinarySearch(i.configurations, model)
	return found
}

// AsCaller is who calls, for the pipeline.
func (i *Identity) AsCaller() llm.Caller {
	if i == nil {
		return llm.Caller{}
	}
	return i.Caller
}

var (
	// ErrInvalid says that a key is none, or not any more.
	ErrInvalid = errors.New("api key is unknown, expired or revoked")
	// ErrUnchecked says that the database is away, so that nobody can tell what a
	// key is worth that was not seen lately.
	ErrUnchecked = errors.New("api key cannot be checked now")
	// ErrNotFound says that no key has the id or prefix asked for.
	ErrNotFound = errors.New("api key not found")
	// ErrNameTaken says that a live key has the name.
	ErrNameTaken = errors.New("api key name is taken")
	// ErrInvalidKey says that no key can be made as it was asked for.
	ErrInvalidKey = errors.New("api key is not possible")
)

// ThrottledError says that a client has tried too many keys that there are not,
// so that no further one is looked up for it now.
type ThrottledError struct {
	RetryAfter time.Duration
}

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("too many unknown api keys, the next is looked up in %s", e.RetryAfter)
}
