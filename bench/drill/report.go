package main

import (
	"fmt"
	"strings"
)

// report writes everything as Markdown. What is asked is an upstream.
func (card *scorecard) report(title, load string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s Load of the machine before: %s.\n", title, load)
	card.writeCallers(&text)
	if card.judged {
		card.writeCircuit(&text)
	}
	card.writeSummary(&text)
	return text.String()
}

func (card *scorecard) writeCallers(text *strings.Builder) {
	text.WriteString("\n| phase | s | with a fallback: calls | failed | p50 ms | worst extra ms | asked per call | without: calls | failed | at once | a failure takes, p50 ms | asked per call |\n" +
		"|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range card.rows {
		fmt.Fprintf(text, "| %s | %.0f | %d | %d | %d | %d | %.2f | %d | %d | %d | %s | %.2f |\n", r.Name, r.took.Seconds(),
			r.chat.calls, r.chat.failed, r.chat.usual.Milliseconds(), r.chat.extra.Milliseconds(), r.chat.upstream,
			r.alone.calls, r.alone.failed, r.alone.refused, count(int(r.alone.failing.Milliseconds()), r.alone.failed > 0), r.alone.upstream)
	}
}

// count leaves a cell empty that has nothing to say.
func count(n int, says bool) string {
	if !says {
		return ""
	}
	return fmt.Sprint(n)
}

func (card *scorecard) writeCircuit(text *strings.Builder) {
	text.WriteString("\n| phase | the circuit | openings | the first by | wrong | canaries | calls spent on probes |\n|---|---|--:|---|--:|--:|--:|\n")
	for _, r := range card.rows {
		fmt.Fprintf(text, "| %s | %s | %s | %s | %s | %s | %s |\n", r.Name, r.circuit.story(r.phase),
			count(r.circuit.openings, r.circuit.openings > 0), r.circuit.reason, count(r.circuit.wrong, r.well()),
			count(r.circuit.canaries, r.circuit.canaries > 0), count(r.probes, r.probes > 0))
	}
}

func (card *scorecard) writeSummary(text *strings.Builder) {
	var chat, alone side
	used, canaries, asked := 0, 0, 0.0
	for _, r := range card.rows {
		chat.calls, chat.failed = chat.calls+r.chat.calls, chat.failed+r.chat.failed
		alone.calls, alone.failed = alone.calls+r.alone.calls, alone.failed+r.alone.failed
		chat.extra = max(chat.extra, r.chat.extra)
		asked += r.chat.upstream * float64(r.chat.calls)
		used += r.probes
		canaries += r.circuit.canaries
	}
	fmt.Fprintf(text, "\n- Failed for callers with a fallback: %d of %d; without: %d of %d.\n", chat.failed, chat.calls, alone.failed, alone.calls)
	fmt.Fprintf(text, "- Upstream calls per call with a fallback: %.2f. Worst extra time of one: %s.\n", asked/float64(max(1, chat.calls)), tidy(chat.extra))
	if !card.judged {
		return
	}
	fmt.Fprintf(text, "- Openings while the provider was well: %d. Canaries: %d, calls spent on probes: %d. Transitions that were not told: %d.\n", card.wrong, canaries, used, card.untold)
	for _, err := range card.broken {
		fmt.Fprintf(text, "- **Out of bounds**: %v\n", err)
	}
}
