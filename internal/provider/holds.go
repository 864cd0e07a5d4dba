package provider

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// HoldPolicy says how long a credential rests.
type HoldPolicy struct {
	MaxHint time.Duration // the longest wait asked for that is granted
	Refused time.Duration // after it was refused, or found without credit
}

// unhinted is how long a credential rests that is limited by a provider that
// does not say for how long: just so that the others go first.
const unhinted = time.Second

// Holds remember which of several credentials rests for which target. Providers
// limit each model by itself, so a credential that is limited for one may serve
// another. Holds outlive a reload of the configuration.
type Holds struct {
	policy atomic.Pointer[func(llm.Target) HoldPolicy]
	count  atomic.Int64 // of held; calls take no lock while nothing is

	mu   sync.Mutex
	held map[credential]hold
}

// credential is one key as it is used for one target.
type credential struct {
	target llm.Target
	text   string
}

// hold is why and until when a credential rests.
type hold struct {
	until  time.Time
	told   bool // the provider said until when
	class  llm.FailureClass
	reason llm.Reason
	status int
}

// before reports whether a credential will serve again earlier than another: one
// that was refused comes last, since time alone does not mend it.
func (h hold) before(other hold) bool {
	if refused := h.class == llm.ClassAuth; refused != (other.class == llm.ClassAuth) {
		return !refused
	}
	return h.until.Before(other.until)
}

// NewHolds returns holds of which there are none yet. The policy is asked with
// the target for which a credential is to rest.
func NewHolds(policy func(llm.Target) HoldPolicy) *Holds {
	h := &Holds{held: map[credential]hold{}}
	h.Reconfigure(policy)
	return h
}

// Reconfigure sets how long credentials rest from the next hold on.
func (h *Holds) Reconfigure(policy func(llm.Target) HoldPolicy) { h.policy.Store(&policy) }

// holdFor says how long a failure makes its credential rest for the target. It
// reports false for a failure that is none of the credential's.
func (h *Holds) holdFor(target llm.Target, f *llm.Failure, now time.Time) (hold, bool) {
	policy := (*h.policy.Load())(target)
	hint := min(f.RetryAfter, policy.MaxHint)
	made := hold{told: hint > 0, class: f.Class, reason: f.Reason, status: f.Status}
	switch {
	case f.Class == llm.ClassAuth, f.Class == llm.ClassQuota:
		made.until = now.Add(max(hint, policy.Refused))
	case f.Class == llm.ClassRateLimit && made.told:
		made.until = now.Add(hint)
	case f.Class == llm.ClassRateLimit:
		made.until = now.Add(unhinted)
	default:
		return hold{}, false
	}
	return made, true
}

func (h *Holds) put(c credential, made hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[c] = made
	h.count.Store(int64(len(h.held)))
}

// find returns the hold of a credential, and forgets one that is over.
func (h *Holds) find(c credential, now time.Time) (hold, bool) {
	if h.count.Load() == 0 {
		return hold{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	found, ok := h.held[c]
	if ok && !found.until.After(now) {
		delete(h.held, c)
		h.count.Store(int64(len(h.held)))
		ok = false
	}
	return found, ok
}
