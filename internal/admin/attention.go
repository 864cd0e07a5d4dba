package admin

import (
	"strings"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/web/templates"
)

// summary says the whole in one line.
func (r reading) summary() templates.Summary {
	open, probing := len(r.inState(breaker.Open)), len(r.inState(breaker.HalfOpen))
	closed := len(r.all) - open - probing
	var parts []string
	if open > 0 {
		parts = append(parts, count(open, "circuit")+" open")
	}
	if probing > 0 {
		parts = append(parts, count(probing, "circuit")+" half-open")
	}
	if len(r.alarms) > 0 {
		parts = append(parts, count(len(r.alarms), "alarm"))
	}
	switch {
	case len(parts) > 0:
		headline := strings.Join(parts, ", ")
		return templates.Summary{
			Title: headline, Headline: headline, Tone: r.tone(),
			Detail: grouped(closed) + " of " + count(len(r.all), "circuit") + " closed.",
		}
	case len(r.all) == 0:
		return templates.Summary{
			Title: "No targets", Headline: "No target is configured", Tone: templates.Quiet,
			Detail: "Calls can be served once a configuration names a target.",
		}
	default:
		return templates.Summary{
			Title: "All closed", Headline: "Every circuit is closed", Tone: templates.Good,
			Detail: count(closed, "target") + ", nothing needs attention.",
		}
	}
}

func (r reading) tone() templates.Tone {
	if len(r.inState(breaker.Open)) > 0 || len(r.alarms) > 0 {
		return templates.Bad
	}
	return templates.Caution
}

// attention lists what is not as it should be, the worst first.
func (r reading) attention() []templates.Notice {
	var notices []templates.Notice
	for _, t := range r.inState(breaker.Open) {
		notices = append(notices, r.circuitNotice(t))
	}
	for _, alarm := range r.alarms {
		notices = append(notices, r.alarmNotice(alarm))
	}
	for _, t := range r.inState(breaker.HalfOpen) {
		notices = append(notices, r.circuitNotice(t))
	}
	return notices
}

func (r reading) circuitNotice(t target) templates.Notice {
	return templates.Notice{
		Mark: t.state(), Subject: t.Key(),
		Facts: []templates.Fact{
			{Name: "Why", Value: t.why()},
			{Name: "Since", Moment: since(t.circuit.Since, r.now)},
			{Name: "Next", Value: t.next(r.now)},
			{Name: "Rejected", Value: count(t.circuit.Rejected, "call") + " so far"},
		},
	}
}

func (r reading) alarmNotice(a Alarm) templates.Notice {
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
