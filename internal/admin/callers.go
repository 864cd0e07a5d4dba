package admin

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/web/templates"
)

// route is a configuration with its targets as they are now, in the order in
// which they are configured.
type route struct {
	name    string
	targets []target
	need    Need
}

// routes returns every configuration.
func (r reading) routes() []route {
	known := map[llm.Target]target{}
	for _, t := range r.all {
		known[t.Target] = t
	}
	var routes []route
	for _, c := range r.callers.Configurations {
		one := route{name: c.Name, need: c.Need}
		for _, name := range c.Targets {
			t := known[name]
			t.Target = name // also where nothing is known of it yet
			one.targets = append(one.targets, t)
		}
		routes = append(routes, one)
	}
	return routes
}

// fare says for each configuration whether those who call it are hurt now, the
// worst first.
func (r reading) fare() []templates.Caller {
	var list []templates.Caller
	for _, one := range r.routes() {
		list = append(list, r.caller(one))
	}
	loudness := []templates.Tone{templates.Bad, templates.Caution, templates.Good}
	slices.SortFunc(list, func(a, b templates.Caller) int {
		return cmp.Or(cmp.Compare(slices.Index(loudness, a.Mark.Tone), slices.Index(loudness, b.Mark.Tone)), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// fareOf is fare for the configurations alone that lead to a target, or that a
// context assembler helps.
func (r reading) fareOf(t target) []templates.Caller {
	r.callers.Configurations = slices.DeleteFunc(slices.Clone(r.callers.Configurations), func(c Configuration) bool {
		return !slices.Contains(c.Targets, t.Target) && !(t.assembles() && c.Name == t.Model)
	})
	return r.fare()
}

// unserved counts the configurations whose targets refuse every call: those that
// have nothing else for their callers, and those that answer them degraded.
func (r reading) unserved() (failing, degraded int) {
	for _, one := range r.routes() {
		switch {
		case !one.unserved():
		case one.need.degrades():
			degraded++
		default:
			failing++
		}
	}
	return failing, degraded
}

// unserved reports whether every target refuses every call.
func (o route) unserved() bool {
	return len(o.targets) > 0 && !slices.ContainsFunc(o.targets, func(t target) bool { return !t.refuses() })
}

// serving returns the targets that let calls through.
func (o route) serving() []target {
	return slices.DeleteFunc(slices.Clone(o.targets), func(t target) bool { return t.refuses() || t.probes() })
}

func (r reading) caller(o route) templates.Caller {
	serving := o.serving()
	switch first := r.first(o); {
	case len(o.targets) == 0:
		return templates.Caller{Name: o.name, Mark: templates.Mark{Tone: templates.Quiet, Text: "No target"}}
	case o.unserved():
		return templates.Caller{
			Name: o.name, Mark: o.need.mark(), Text: o.need.text() + ": " + o.closedOff() + r.soonest(o),
		}
	case len(serving) == 0:
		return templates.Caller{
			Name: o.name, Mark: templates.Mark{Tone: templates.Caution, Text: "Probes only"},
			Text: o.need.text("whose calls are probes") + ".",
		}
	case len(serving) == len(o.targets):
		return templates.Caller{Name: o.name, Mark: undisturbed, Text: taking(len(serving))}
	case first.refuses() || first.probes():
		return templates.Caller{
			Name: o.name, Mark: templates.Mark{Tone: templates.Caution, Text: "Served by fallback"},
			Text: first.Key() + first.trouble() + r.instead(serving[0]) + ".",
		}
	default:
		return templates.Caller{
			Name: o.name, Mark: undisturbed,
			Text: fmt.Sprintf("%d of its %d targets would take a call now.", len(serving), len(o.targets)),
		}
	}
}

// undisturbed is the mark of callers who notice nothing.
var undisturbed = templates.Mark{Tone: templates.Good, Text: "Served"}

// first is the target that is asked first; none where that changes with the
// scores.
func (r reading) first(o route) target {
	if len(o.targets) == 0 || r.report.ReorderFallback && r.report.ReorderPrimary {
		return target{}
	}
	return o.targets[0]
}

// trouble says why a target does not take calls.
func (t target) trouble() string {
	switch {
	case t.held():
		return " is forced open"
	case t.probes():
		return " only takes probes"
	default:
		return " is open"
	}
}

// instead says who serves in place of the first.
func (r reading) instead(next target) string {
	if r.report.ReorderFallback {
		return "; another target serves"
	}
	return "; " + next.Key() + " serves"
}

func taking(targets int) string {
	if targets == 1 {
		return "Its only target takes calls."
	}
	return fmt.Sprintf("Its %d targets take calls.", targets)
}

// closedOff says that no target takes calls, and by whose doing.
func (o route) closedOff() string {
	how := "open"
	if !slices.ContainsFunc(o.targets, func(t target) bool { return !t.held() }) {
		how = "forced open"
	}
	if len(o.targets) == 1 {
		return "its only target is " + how
	}
	return "every target is " + how
}

// endless returns the targets that stay as they are until an operator closes them.
func (o route) endless() []target {
	return slices.DeleteFunc(slices.Clone(o.targets), func(t target) bool { return !t.held() || !t.circuit.Until.IsZero() })
}

// soonest says when the first of the targets is tried again, and which are not
// until somebody acts.
func (r reading) soonest(o route) string {
	endless := o.endless()
	switch {
	case len(endless) == len(o.targets) && len(o.targets) == 1:
		return ", until an operator closes it."
	case len(endless) == len(o.targets):
		return ", until an operator closes one."
	}
	next, wait := r.nextTried(o)
	switch {
	case wait == 0 && !next.held():
		return "; a canary is about to find out whether " + next.Key() + " is well again" + stays(endless) + "."
	case next.held() && !next.circuit.Enabled:
		return "; " + next.Key() + " takes calls again in " + span(wait) + stays(endless) + "."
	case len(endless) > 0:
		return "; the next probe, of " + next.Key() + ", is in " + span(wait) + stays(endless) + "."
	default:
		return "; the next probe is in " + span(wait) + "."
	}
}

// nextTried returns the target that is tried first of all that are by themselves,
// and how long that takes; 0 where a canary is to find out.
func (r reading) nextTried(o route) (target, time.Duration) {
	var next target
	least := time.Duration(-1)
	for _, t := range o.targets {
		wait := t.circuit.RetryAfter
		if t.held() {
			if t.circuit.Until.IsZero() {
				continue
			}
			wait = max(0, t.circuit.Until.Sub(r.now))
		}
		if least < 0 || wait < least {
			next, least = t, wait
		}
	}
	return next, least
}

// stays says which targets stay forced open.
func stays(endless []target) string {
	switch len(endless) {
	case 0:
		return ""
	case 1:
		return ", and " + endless[0].Key() + " is forced open until an operator closes it"
	default:
		return fmt.Sprintf(", and %d are forced open until an operator closes them", len(endless))
	}
}
