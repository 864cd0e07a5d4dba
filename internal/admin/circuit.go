package admin

import (
	"cmp"
	"fmt"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/web/templates"
)

// untouched reports whether the target has no circuit yet.
func (t target) untouched() bool { return t.circuit.Key == "" }

// held reports whether an operator has set the state of the circuit.
func (t target) held() bool {
	return t.circuit.State == breaker.ForcedOpen || t.circuit.State == breaker.Disabled || t.circuit.State == breaker.Shadow
}

// off reports whether the breaker is switched off for the target by its
// settings, and no operator has said otherwise.
func (t target) off() bool { return !t.untouched() && !t.circuit.Enabled && !t.held() }

// refuses reports whether no call gets through, not even a probe.
func (t target) refuses() bool {
	return t.circuit.State == breaker.ForcedOpen || t.circuit.State == breaker.Open && !t.circuit.Eligible || t.canaried()
}

// canaried reports whether a canary is to find out whether the target is well
// again, before any call does.
func (t target) canaried() bool {
	return t.circuit.State == breaker.HalfOpen && t.circuit.Reason == breaker.ReasonCanary
}

// probes reports whether only probes get through, now or with the next call.
func (t target) probes() bool {
	return t.circuit.State == breaker.HalfOpen && !t.canaried() || t.circuit.State == breaker.Open && t.circuit.Eligible
}

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
	case t.held():
		return heldMark(t.circuit.State)
	default:
		return templates.Mark{Tone: templates.Good, Text: "Closed"}
	}
}

// heldMark is the mark of a state that only an operator can set.
func heldMark(state breaker.State) templates.Mark {
	switch state {
	case breaker.ForcedOpen:
		return templates.Mark{Tone: templates.Caution, Shape: templates.Lock, Text: "Forced open"}
	case breaker.Disabled:
		return templates.Mark{Tone: templates.Caution, Shape: templates.Bypass, Text: "Disabled"}
	default:
		return templates.Mark{Tone: templates.Quiet, Shape: templates.Eye, Text: "Shadow"}
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
	case t.held():
		return setBy(c)
	case c.State == breaker.Closed && c.Failures > uint64(c.ConsecutiveFailures):
		return share(c)
	case c.State == breaker.Closed && c.ConsecutiveFailures > 0:
		return count(c.ConsecutiveFailures, "failure") + " in a row"
	default:
		return reasonInWords(c) + caused(c.Cause)
	}
}

// setBy says who set the state, and in whose words why.
func setBy(c breaker.Snapshot) string {
	by := "By " + cmp.Or(c.Actor, "an operator")
	if c.Note == "" {
		return by + ", who gave no reason"
	}
	return by + ": " + c.Note
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
	case breaker.ReasonCanary:
		return "Cooldown over, a canary finds out"
	case breaker.ReasonCanarySuccess:
		return "A canary did well"
	case breaker.ReasonCanaryFailure:
		return "A canary failed"
	case breaker.ReasonCanaryUnable:
		return "Canaries could not be made, so calls probe"
	case breaker.ReasonProbeSuccess:
		return "A probe succeeded"
	case breaker.ReasonProbeFailure:
		return "A probe failed"
	case breaker.ReasonProbeLost:
		return "A probe never came back"
	case breaker.ReasonHalfOpenTimeout:
		return "No probe gave a verdict in time"
	case breaker.ReasonOperator:
		return "An operator said so"
	case breaker.ReasonOverrideOver:
		return "The time of what an operator had set is over"
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

// nextProbe is when the circuit will try its target again, or when what an
// operator has set is over; empty while there is nothing to wait for.
func (t target) nextProbe(now time.Time) string {
	switch {
	case t.circuit.State == breaker.ForcedOpen && t.circuit.Until.IsZero():
		return "When an operator closes it"
	case t.held():
		return t.ending(now)
	case t.canaried():
		return "A canary is under way"
	case t.circuit.State == breaker.HalfOpen:
		return "Under way"
	case t.circuit.State != breaker.Open:
		return ""
	case t.circuit.Eligible:
		return "With the next call"
	case t.circuit.RetryAfter == 0:
		return "A canary, once a call was refused"
	case t.policy.Canary:
		return "A canary in " + span(t.circuit.RetryAfter)
	default:
		return "In " + span(t.circuit.RetryAfter)
	}
}

// ending is when a state that an operator has set will end by itself, and how;
// empty for never.
func (t target) ending(now time.Time) string {
	switch {
	case t.circuit.Until.IsZero():
		return ""
	case t.circuit.State == breaker.ForcedOpen && t.circuit.Enabled:
		return "Probed from " + clock(t.circuit.Until, now).Text + " on"
	case !t.circuit.Enabled:
		return "Off again at " + clock(t.circuit.Until, now).Text
	default:
		return "Closed at " + clock(t.circuit.Until, now).Text
	}
}

// heldNext says what a state that an operator has set does to callers, and how
// it ends.
func (t target) heldNext(now time.Time) string {
	end := "until an operator closes it."
	if !t.circuit.Until.IsZero() {
		end = "until " + clock(t.circuit.Until, now).Text + "; " + t.afterwards()
	}
	switch t.circuit.State {
	case breaker.ForcedOpen:
		return "Refuses every call " + end
	case breaker.Disabled:
		return "Lets every call through and counts nothing, " + end
	default:
		return "Lets every call through and only tells when it would have opened, " + end
	}
}

// afterwards is what follows when the time of a state that an operator has set
// is over.
func (t target) afterwards() string {
	switch {
	case !t.circuit.Enabled:
		return "then it is switched off again, as its settings say."
	case t.circuit.State == breaker.ForcedOpen:
		return "then the next call is a probe."
	default:
		return "then it is closed and guards the target again."
	}
}

// next says what happens next, in a sentence.
func (t target) next(now time.Time) string {
	if t.assembles() && (t.refuses() || t.probes()) {
		return t.step(now) + " Calls of " + t.Model + " are answered without their context meanwhile."
	}
	return t.step(now)
}

// assembles reports whether a context assembler stands behind the circuit, which
// no call depends on.
func (t target) assembles() bool { return t.Provider == llm.ContextProvider }

func (t target) step(now time.Time) string {
	switch {
	case t.held():
		return t.heldNext(now)
	case t.off():
		return "Lets every call through, since its settings want no circuit."
	case t.circuit.State == breaker.Closed:
		return "Lets every call through and counts how it ends."
	case t.canaried():
		return "Refuses every call until a canary, a small call of the gateway's own, has found out whether the target is well again."
	case t.circuit.State == breaker.HalfOpen:
		return "Probes are under way; every other call is refused until they have answered."
	case t.circuit.Eligible:
		return "The cooldown is over: the next call is a probe."
	case t.circuit.RetryAfter == 0:
		return "The cooldown is over: refuses every call until a canary has found out whether the target is well again. It is sent when a call was refused."
	case t.policy.Canary:
		return fmt.Sprintf("Refuses every call for %s; from %s on a canary finds out whether the target is well again.",
			span(t.circuit.RetryAfter), clock(now.Add(t.circuit.RetryAfter+time.Second-1), now).Text)
	default:
		return fmt.Sprintf("Refuses every call for %s; the first one from %s on is a probe.",
			span(t.circuit.RetryAfter), clock(now.Add(t.circuit.RetryAfter+time.Second-1), now).Text)
	}
}
