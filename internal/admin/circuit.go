package admin

import (
	"fmt"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/web/templates"
)

// untouched reports whether the target has no circuit yet.
func (t target) untouched() bool { return t.circuit.Key == "" }

// off reports whether the breaker is switched off for the target.
func (t target) off() bool { return !t.untouched() && !t.circuit.Enabled }

// state is the state of the circuit as a mark.
func (t target) state() templates.Mark {
	switch {
	case t.off():
		return templates.Mark{Tone: templates.Quiet, Text: "Off"}
	case t.circuit.State == breaker.Open && t.circuit.Eligible:
		return templates.Mark{Tone: templates.Caution, Text: "Probe due"}
	case t.circuit.State == breaker.Open:
		return templates.Mark{Tone: templates.Bad, Text: "Open"}
	case t.circuit.State == breaker.HalfOpen:
		return templates.Mark{Tone: templates.Caution, Text: "Half-open"}
	default:
		return templates.Mark{Tone: templates.Good, Text: "Closed"}
	}
}

// governed names what governs the circuit.
func (t target) governed() string {
	if t.policy.Override == "" {
		return t.policy.Name
	}
	return t.policy.Name + " for " + t.policy.Override
}

// why says in words what brought the circuit into its state.
func (t target) why() string {
	c := t.circuit
	switch {
	case t.untouched():
		return "No call yet"
	case t.off():
		return "Switched off: every call goes through"
	case c.State == breaker.Closed && c.Failures > uint64(c.ConsecutiveFailures):
		return share(c)
	case c.State == breaker.Closed && c.ConsecutiveFailures > 0:
		return count(c.ConsecutiveFailures, "failure") + " in a row"
	default:
		return reasonInWords(c) + caused(c.Cause)
	}
}

func reasonInWords(c breaker.Snapshot) string {
	switch c.Reason {
	case "":
		return ""
	case breaker.ReasonConsecutive:
		return count(c.ConsecutiveFailures, "failure") + " in a row"
	case breaker.ReasonFailureRate:
		return share(c)
	case breaker.ReasonSlowRate:
		return grouped(c.Slow) + " of the last " + count(c.Calls, "call") + " slow"
	case breaker.ReasonRetryAfter:
		return askedToWait(c.Cause)
	case breaker.ReasonHalfOpen:
		return "Cooldown over, being probed"
	case breaker.ReasonProbeSuccess:
		return "A probe succeeded"
	case breaker.ReasonProbeFailure:
		return "A probe failed"
	case breaker.ReasonProbeLost:
		return "A probe never came back"
	case breaker.ReasonHalfOpenTimeout:
		return "No probe gave a verdict in time"
	default:
		return c.Reason
	}
}

// share says how many of the latest calls failed.
func share(c breaker.Snapshot) string {
	return grouped(c.Failures) + " of the last " + count(c.Calls, "call") + " failed"
}

// askedToWait says who wants the circuit to stay open so long.
func askedToWait(cause string) string {
	if cause == string(llm.ClassQuota) {
		return "The provider says that no credit is left"
	}
	return "The provider asked to be left alone"
}

func caused(class string) string {
	if class == "" {
		return ""
	}
	return " (" + class + ")"
}

// nextProbe is when the circuit will try its target again; empty while there
// is nothing to try.
func (t target) nextProbe() string {
	switch {
	case t.circuit.State == breaker.HalfOpen:
		return "Under way"
	case t.circuit.State != breaker.Open:
		return ""
	case t.circuit.Eligible:
		return "With the next call"
	default:
		return "In " + span(t.circuit.RetryAfter)
	}
}

// next says what happens next, in a sentence.
func (t target) next(now time.Time) string {
	switch {
	case t.circuit.State == breaker.HalfOpen:
		return "Probes are under way; every other call is refused until they have answered."
	case t.circuit.Eligible:
		return "The cooldown is over: the next call is a probe."
	default:
		return fmt.Sprintf("Refuses every call for %s; the first one from %s on is a probe.",
			span(t.circuit.RetryAfter), clock(now.Add(t.circuit.RetryAfter+time.Second-1), now).Text)
	}
}
