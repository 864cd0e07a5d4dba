package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// Steering does what operators decide about circuits.
type Steering interface {
	// Command tells a circuit and keeps the decision. It reports false when that
	// could not be written down yet: it holds, and is written later.
	Command(ctx context.Context, key string, c breaker.Command) (circuit breaker.Snapshot, saved bool, err error)
}

// circuitActions are what operators do to circuits; paths spell them so.
func circuitActions() []breaker.Action {
	return []breaker.Action{breaker.ActionOpen, breaker.ActionClose, breaker.ActionReset, breaker.ActionDisable, breaker.ActionShadow}
}

// steering is the body of POST /api/v1/circuits/{key}/{action}, which may be
// left out.
type steering struct {
	Reason string `json:"reason"`
	TTLMS  int64  `json:"ttl_ms"` // 0 = until another command
}

// steered is the circuit after a command.
type steered struct {
	circuitView
	// Saved is false while the decision waits for the database: it holds here and
	// would not outlive a restart.
	Saved bool `json:"saved"`
}

// steer serves POST /api/v1/circuits/{key}/{action}.
func (a *admin) steer(action breaker.Action) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := noQuery(c); err != nil {
			return err
		}
		snapshot := a.Snapshot()
		present, _, err := a.circuit(c, snapshot)
		if err != nil {
			return err
		}
		var body steering
		if err := decodeIfAny(c, &body); err != nil {
			return err
		}
		if err := body.check(action); err != nil {
			return err
		}
		circuit, saved, err := a.Steering.Command(c.Request().Context(), present.Key, body.command(action, operatorOf(c).Name))
		if err != nil {
			return err
		}
		return sendJSON(c, http.StatusOK, steered{circuitView: viewCircuit(circuit, snapshot.Policy(circuit.Key)), Saved: saved})
	}
}

func (s steering) command(action breaker.Action, actor string) breaker.Command {
	return breaker.Command{Action: action, For: time.Duration(s.TTLMS) * time.Millisecond, Note: s.Reason, Actor: actor}
}

// The bounds of a command.
const (
	longestTTL    = int64(30 * 24 * time.Hour / time.Millisecond)
	longestReason = 500 // characters
)

func (s steering) check(action breaker.Action) error {
	ends := slices.Contains([]breaker.Action{breaker.ActionClose, breaker.ActionReset}, action)
	switch {
	case s.TTLMS < 0 || s.TTLMS > longestTTL:
		return invalidValue("ttl_ms", fmt.Sprintf("ttl_ms must be from 0 (until another command) to %d (30 days).", longestTTL))
	case s.TTLMS > 0 && ends:
		return invalidValue("ttl_ms", fmt.Sprintf("%s ends what was set and lasts no time; leave ttl_ms out.", action))
	case utf8.RuneCountInString(s.Reason) > longestReason:
		return invalidValue("reason", fmt.Sprintf("reason must be at most %d characters.", longestReason))
	case strings.ContainsFunc(s.Reason, unreadable):
		return invalidValue("reason", "reason must be one line of text without control characters.")
	default:
		return nil
	}
}

// unreadable reports characters that would not be seen in a line of text, or
// would change how the rest of it is seen.
func unreadable(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}
