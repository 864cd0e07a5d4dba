package credential

import (
	"fmt"
	"regexp"
	"time"
)

// names may stand in a log line, a table and a page as they are.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// CheckName returns what is wrong with a credential's name.
func CheckName(name string) error {
	if !names.MatchString(name) {
		return fmt.Errorf("%q is not made of 1 to 64 letters, digits and . _ @ - with a letter or digit first", name)
	}
	return nil
}

// The states of a credential.
const (
	StateLive    = "live"
	StateExpired = "expired"
	StateRevoked = "revoked"
)

// Life is when a credential was minted and when it ends. Times are UTC; nil means
// never.
type Life struct {
	CreatedAt time.Time
	ExpiresAt *time.Time
	RevokedAt *time.Time
}

// LifeOf returns the life that times in any zone tell of.
func LifeOf(created time.Time, expires, revoked *time.Time) Life {
	return Life{CreatedAt: created.UTC(), ExpiresAt: utc(expires), RevokedAt: utc(revoked)}
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}

// State says what the credential is worth at a time: one of the States.
func (l Life) State(now time.Time) string {
	expired := l.ExpiresAt != nil && !now.Before(*l.ExpiresAt)
	switch {
	// The name of an expired one was taken over, which revokes it as of then.
	case l.RevokedAt != nil && (l.ExpiresAt == nil || l.RevokedAt.Before(*l.ExpiresAt)):
		return StateRevoked
	case expired:
		return StateExpired
	default:
		return StateLive
	}
}
