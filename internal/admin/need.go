package admin

import (
	"strings"

	"github.com/breakwater-llm/breakwater/web/templates"
)

// Need is what callers of a configuration may get when no target answers them.
type Need struct {
	Kept    bool // an answer that the response cache has, while it is good
	Stale   bool // and one that is past its time
	Message bool // a message in place of an answer
}

// degrades reports whether something is said to callers in place of an error.
func (n Need) degrades() bool { return n.Stale || n.Message }

// mark is how callers fare whom no target answers.
func (n Need) mark() templates.Mark {
	switch {
	case n.Message:
		return templates.Mark{Tone: templates.Caution, Text: "Degraded"}
	case n.Stale:
		return templates.Mark{Tone: templates.Bad, Text: "Stale or errors"}
	default:
		return templates.Mark{Tone: templates.Bad, Text: "Errors"}
	}
}

// text says what callers get whom no target answers, and who fares better: those
// that are named, and whoever asks what the response cache has.
func (n Need) text(better ...string) string {
	text := "Callers get errors"
	if n.Message {
		text = "Callers get the configured message"
	}
	switch {
	case n.Stale:
		better = append(better, "whose answer the response cache has, stale or not")
	case n.Kept:
		better = append(better, "whose answer the response cache has")
	}
	if len(better) == 0 {
		return text
	}
	return text + ", but for those " + strings.Join(better, " or ")
}

// direct says what they get who name a target that refuses every call.
func (n Need) direct(t target) string {
	who := "Whoever names " + t.Provider + "/" + t.Model + " itself gets an error"
	if n.Kept {
		who += ", unless the response cache has the answer"
	}
	return who + "."
}
