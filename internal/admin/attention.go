package admin

import (
	"slices"
	"strings"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/telemetry"
	"github.com/breakwater-llm/breakwater/web/templates"
)

// summary says the whole in one line.
func (r reading) summary() templates.Summary {
	headline := r.troubles()
	if len(r.all) == 0 && headline == "" {
		return templates.Summary{
			Title: "No targets", Headline: "No target is configured", Tone: templates.Quiet,
			Detail: "Calls can be served once a configuration names a target.",
		}
	}
	if headline != "" {
		return templates.Summary{Title: headline, Headline: headline, Tone: r.tone(), Detail: r.rest() + "."}
	}
	return templates.Summary{
		Title: "All well", Headline: "No circuit is open", Tone: templates.Good,
		Detail: r.rest() + "; nothing needs attention.",
	}
}

// troubles counts what needs attention; empty when nothing does.
func (r reading) troubles() string {
	failing, degraded := r.unserved()
	return enumerate(
		some(failing, "configuration", " failing"),
		some(degraded, "configuration", " degraded"),
		some(len(r.refusing()), "circuit", " open"),
		some(len(r.inState(breaker.HalfOpen)), "circuit", " half-open"),
		some(len(r.due()), "circuit", " due for a probe"),
		some(len(r.alarms), "alarm", ""),
		r.databaseTrouble(),
		r.spoolTrouble(),
		r.cacheTrouble(),
		r.refusalTrouble(),
		some(len(r.held()), "circuit", " set by an operator"),
	)
}

func (r reading) cacheTrouble() string {
	if !r.cacheAway {
		return ""
	}
	return "cache away"
}

// rest counts the circuits that need none.
func (r reading) rest() string {
	off := 0
	for _, t := range r.all {
		if t.off() {
			off++
		}
	}
	closed := len(r.inState(breaker.Closed)) - off
	said := grouped(closed) + " of " + count(len(r.all), "circuit") + " closed"
	if off > 0 {
		said += ", " + grouped(off) + " switched off"
	}
	return said
}

// some counts things; empty when there are none.
func some(n int, unit, how string) string {
	if n == 0 {
		return ""
	}
	return count(n, unit) + how
}

// enumerate joins what is not empty.
func enumerate(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}

func (r reading) tone() templates.Tone {
	hurt := slices.ContainsFunc(r.fare(), func(c templates.Caller) bool { return c.Mark.Tone == templates.Bad })
	if hurt || len(r.refusing()) > 0 || len(r.alarms) > 0 || r.database.Away {
		return templates.Bad
	}
	return templates.Caution
}

// attention lists what is not as it should be, the worst first, and apart from
// it what operators have set.
func (r reading) attention() templates.Attention {
	var held []templates.Notice
	for _, t := range r.held() {
		held = append(held, r.circuitNotice(t))
	}
	return templates.Attention{Sick: r.sick(), Held: held}
}

func (r reading) sick() []templates.Notice {
	var notices []templates.Notice
	for _, t := range r.refusing() {
		notices = append(notices, r.circuitNotice(t))
	}
	for _, alarm := range r.alarms {
		notices = append(notices, r.alarmNotice(alarm))
	}
	if r.database.Away {
		notices = append(notices, r.databaseNotice())
	}
	if r.database.Spool.Trouble != "" {
		notices = append(notices, r.spoolNotice())
	}
	if r.cacheAway {
		notices = append(notices, cacheNotice())
	}
	if r.refused != nil {
		notices = append(notices, r.refusalNotice())
	}
	for _, t := range slices.Concat(r.inState(breaker.HalfOpen), r.due()) {
		notices = append(notices, r.circuitNotice(t))
	}
	return notices
}

func cacheNotice() templates.Notice {
	return templates.Notice{
		Mark: templates.Mark{Tone: templates.Caution, Text: "Away"}, Subject: "cache",
		Facts: []templates.Fact{
			{Name: "Why", Value: "It cannot be reached or does not take orders; calls are served, and this gateway decides about circuits by itself"},
			{Name: "Next", Value: "Gateways share their circuits again within seconds of its return."},
		},
	}
}

func (r reading) circuitNotice(t target) templates.Notice {
	return templates.Notice{
		Mark: t.state(), Subject: t.Key(), ID: elementID(t.Key()), URL: circuitURL(t.Key()),
		Facts: []templates.Fact{
			{Name: "Why", Value: t.why()},
			{Name: "Since", Moment: since(t.circuit.Since, r.now)},
			{Name: "Next", Value: t.next(r.now)},
			{Name: "Rejected", Value: count(t.circuit.Rejected, "call") + " so far"},
			{Name: "Policy", Value: t.governed()},
		},
	}
}

func (r reading) alarmNotice(a telemetry.Alarm) templates.Notice {
	why, remedy := alarmInWords(a.Kind)
	return templates.Notice{
		Mark: templates.Mark{Tone: templates.Bad, Text: "Alarm"}, Subject: a.Provider,
		Facts: []templates.Fact{
			{Name: "Why", Value: why + caused(string(a.Kind))},
			{Name: "Since", Moment: since(a.Since, r.now)},
			{Name: "Next", Value: remedy},
			{Name: "Seen", Value: count(a.Count, "time")},
		},
	}
}

// alarmInWords says what an alarm means, and what a person can do about it.
func alarmInWords(kind llm.FailureClass) (why, remedy string) {
	switch kind {
	case llm.ClassAuth:
		return "The provider refuses our credentials", "Nothing by itself: check the provider's api_key."
	case llm.ClassQuota:
		return "The provider says that no credit is left", "Nothing by itself: top the account up, or raise its limit."
	case llm.ClassConfiguration:
		return "The provider does not know what it is asked for", "Nothing by itself: check base_url and the names of the models."
	default:
		return "The provider needs a person", "Nothing by itself: the log says more."
	}
}
