package admin

import (
	"context"
	"slices"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/web/templates"
)

// Steering obeys an operator.
type Steering interface {
	// Command changes one circuit and returns what it has become, and whether
	// that is saved so that it outlives a restart. A command that is not saved
	// holds all the same.
	Command(ctx context.Context, key string, c breaker.Command) (now breaker.Snapshot, saved bool, err error)
}

// actor is who commands until there is a sign-in: whoever is on this machine.
const actor = "local"

// command is one thing that operators do to circuits.
type command struct {
	action breaker.Action
	label  string
	effect string // on callers
	// asks: it needs words, or it may hurt callers, so that it is obeyed only
	// after a form has said what it will do.
	asks bool
	tone templates.Tone // of the button that means it
}

// commands are all there are, in the order in which they are offered.
var commands = []command{
	{
		action: breaker.ActionClose, label: "Close", tone: templates.Good,
		effect: "Calls go through at once, without a probe, and the breaker counts anew and decides again.",
	},
	{
		action: breaker.ActionReset, label: "Reset", tone: templates.Good,
		effect: "Forgets what was counted. Callers notice nothing.",
	},
	{
		action: breaker.ActionOpen, label: "Force open", asks: true, tone: templates.Bad,
		effect: "Every call is refused, and no probe is sent: callers go on to the next target. Where there is none they get what their configuration has for that, else an error.",
	},
	{
		action: breaker.ActionShadow, label: "Only watch", asks: true, tone: templates.Caution,
		effect: "Every call goes through, also to a target that is sick. The breaker goes on counting, and tells when it would have opened.",
	},
	{
		action: breaker.ActionDisable, label: "Disable", asks: true, tone: templates.Bad,
		effect: "Every call goes through, also to a target that is sick, and nothing is counted: the circuit cannot open.",
	},
}

// commandOf finds a command by how paths spell it.
func commandOf(name string) (command, bool) {
	at := slices.IndexFunc(commands, func(c command) bool { return string(c.action) == name })
	if at < 0 {
		return command{}, false
	}
	return commands[at], true
}

// becomes is the state that a command leads to.
func (c command) becomes() breaker.State {
	switch c.action {
	case breaker.ActionOpen:
		return breaker.ForcedOpen
	case breaker.ActionDisable:
		return breaker.Disabled
	case breaker.ActionShadow:
		return breaker.Shadow
	default:
		return breaker.Closed
	}
}

// sensible reports whether a command changes anything for a target as it is.
func (c command) sensible(t target) bool {
	switch c.action {
	case breaker.ActionClose:
		return t.circuit.State != breaker.Closed
	case breaker.ActionReset:
		return t.circuit.State == breaker.Closed && !t.untouched() && !t.off()
	case breaker.ActionDisable:
		return !t.off()
	default:
		return true
	}
}

// name says what a command is for a target as it is: where its state is set
// already, it says other words of it.
func (c command) name(t target) string {
	if t.held() && c.becomes() == t.circuit.State {
		return "Change reason or time"
	}
	return c.label
}

// effectOn says what a command does to callers. Those that do not go through a
// target go on without what is behind the circuit.
func (c command) effectOn(t target) string {
	switch {
	case c.action == breaker.ActionOpen && t.assembles():
		return "The assembler is not asked, and no probe is sent: calls of " + t.Model + " are answered without their context."
	case c.action == breaker.ActionOpen && t.IsHealth():
		return "No health check is made. Callers notice nothing."
	default:
		return c.effect
	}
}

// actions lists what an operator can do to a target's circuit now; nothing
// where nobody obeys.
func (p *Pages) actions(t target) []templates.Action {
	if p.Steering == nil {
		return nil
	}
	var list []templates.Action
	for _, c := range commands {
		if !c.sensible(t) {
			continue
		}
		action := templates.Action{ID: string(c.action), Label: c.name(t), Effect: c.effectOn(t), URL: commandURL(t, c), Asks: c.asks}
		if c.asks {
			action.Label += "…"
		}
		list = append(list, action)
	}
	return list
}

func commandURL(t target, c command) string { return circuitURL(t.Key()) + "/" + string(c.action) }
