package provider

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Keys are the credentials of one provider. One alone is always used, and all
// its failures are the provider's. Of several, each that is limited, refused or
// without credit rests by itself while the others serve; only when none is left
// it is the target that fails.
type Keys struct {
	texts []string
	holds *Holds
	turn  atomic.Uint64
}

// NewKeys returns the keys in their order; without any, calls go out without a
// credential. The holds may be nil for fewer than two.
func NewKeys(texts []string, holds *Holds) *Keys {
	if len(texts) == 0 {
		texts = []string{""}
	}
	return &Keys{texts: texts, holds: holds}
}

// Texts returns the keys themselves.
func (k *Keys) Texts() []string { return k.texts }

// Choose returns the index of the key to be used for a target: each in turn of
// those that do not rest, or, when all do, the one that will serve again first. A
// rest is no refusal: whether the target is asked at all is its circuit's matter.
func (k *Keys) Choose(target llm.Target, now time.Time) int {
	if len(k.texts) == 1 {
		return 0
	}
	turn := k.turn.Add(1) - 1
	free, soonest, _ := k.state(target, now)
	if len(free) == 0 {
		return soonest
	}
	return free[turn%uint64(len(free))]
}

// state lists the keys that do not rest and names the one that will serve again
// first.
func (k *Keys) state(target llm.Target, now time.Time) (free []int, soonest int, first hold) {
	free = make([]int, 0, len(k.texts))
	for i, text := range k.texts {
		held, ok := k.holds.find(credential{target, text}, now)
		switch {
		case !ok:
			free = append(free, i)
		case first.until.IsZero() || held.before(first):
			soonest, first = i, held
		}
	}
	return free, soonest, first
}

// Used notes what became of a call under a key. A failure that is the key's own
// lets it rest. While another key is free the failure says so, and is none of
// the target's; else it stands for the key that will serve again first.
func (k *Keys) Used(i int, target llm.Target, result *llm.Result, err error, now time.Time) {
	if len(k.texts) == 1 {
		return
	}
	if result != nil {
		result.Credential = i + 1
	}
	var f *llm.Failure
	if !errors.As(err, &f) {
		return
	}
	made, ok := k.holds.holdFor(target, f, now)
	if !ok {
		return
	}
	k.holds.put(credential{target, k.texts[i]}, made)
	f.Refusal = &llm.CredentialRefusal{Credential: i + 1, Class: f.Class, Reason: f.Reason}
	free, _, first := k.state(target, now)
	if f.OtherCredential = len(free) > 0; !f.OtherCredential {
		standFor(f, first, now)
	}
}

// standFor turns a failure into that of the key that will serve again first.
func standFor(f *llm.Failure, first hold, now time.Time) {
	f.Class, f.Reason, f.Status, f.RetryAfter = first.class, first.reason, first.status, 0
	if first.told {
		f.RetryAfter = first.until.Sub(now)
	}
}
