package admin

import "github.com/breakwater-llm/breakwater/web/templates"

const (
	// shownFaults is how many faults of a configuration the page lists.
	shownFaults = 5
	// longestFault is how many characters it shows of one: a key may be as long as
	// the file.
	longestFault = 300
)

func (r reading) refusalTrouble() string {
	if r.refused == nil {
		return ""
	}
	return "configuration refused"
}

// refusalNotice says that a changed configuration is not in force, since when, and
// what is wrong with it.
func (r reading) refusalNotice() templates.Notice {
	facts := []templates.Fact{
		{Name: "Means", Value: "A changed configuration has faults: the one of before stays in force, whole"},
		{Name: "Since", Moment: since(r.refused.Since, r.now)},
	}
	if !r.refused.Latest.Equal(r.refused.Since) {
		facts = append(facts, templates.Fact{Name: "Last tried", Moment: since(r.refused.Latest, r.now)})
	}
	facts = append(facts, faultFacts(r.refused.Faults)...)
	return templates.Notice{
		Mark: templates.Mark{Tone: templates.Caution, Text: "Refused"}, Subject: "configuration",
		Facts: append(facts, templates.Fact{
			Name: "Next", Value: "Nothing by itself: put the file right, or take the change back; it is read again when it changes. Until then a gateway that restarts would not start.",
		}),
	}
}

// faultFacts lists the first faults, and says where the others are.
func faultFacts(faults []string) []templates.Fact {
	if len(faults) == 0 {
		return []templates.Fact{{Name: "Why", Value: "The log has the error"}}
	}
	var facts []templates.Fact
	for _, fault := range faults[:min(len(faults), shownFaults)] {
		facts = append(facts, templates.Fact{Name: "Why", Value: beginning(fault, longestFault)})
	}
	if more := len(faults) - shownFaults; more > 0 {
		facts = append(facts, templates.Fact{Name: "Why", Value: "And " + count(more, "more fault") + ": the log has all, and breakwater config check finds them"})
	}
	return facts
}

// beginning is a text, cut off where it is longer than so many characters.
func beginning(text string, longest int) string {
	runes := []rune(text)
	if len(runes) <= longest {
		return text
	}
	return string(runes[:longest]) + "…"
}
