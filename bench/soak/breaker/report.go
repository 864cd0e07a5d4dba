package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// stats are what one worker did.
type stats struct {
	admitted, refused, probes               int
	forgotten, panicked, exited, doubleDone int
	settled                                 [kinds][settlements]int
}

const (
	kinds       = breaker.Failure + 1
	settlements = breaker.Ignored + 1
)

func (s *stats) add(o *stats) {
	s.admitted += o.admitted
	s.refused += o.refused
	s.probes += o.probes
	s.forgotten += o.forgotten
	s.panicked += o.panicked
	s.exited += o.exited
	s.doubleDone += o.doubleDone
	for k := range o.settled {
		for i, n := range o.settled[k] {
			s.settled[k][i] += n
		}
	}
}

// report writes everything as Markdown.
func (s *soak) report() string {
	var text strings.Builder
	calls := s.sum.admitted + s.sum.refused
	fmt.Fprintf(&text, "Soaked %s to %s UTC with the %s store: %d goroutines on %d keys, %d calls, %.0f per second.\n",
		s.began.UTC().Format("2006-01-02 15:04"), s.ended.UTC().Format("15:04"), s.Store, s.Workers, s.Keys, calls,
		float64(calls)/s.ended.Sub(s.began).Seconds())
	s.writeEnds(&text)
	writeMoves(&text, s.chronicle.moves)
	s.writeDeeds(&text)
	writePromises(&text, s.breaches, allPromises()...)
	return text.String()
}

func (s *soak) writeEnds(text *strings.Builder) {
	text.WriteString("\n| ends of calls |")
	for i := range settlements {
		fmt.Fprintf(text, " %s |", i)
	}
	text.WriteString("\n|---|" + strings.Repeat("--:|", int(settlements)) + "\n")
	for _, k := range []breaker.Kind{breaker.Success, breaker.Failure, breaker.Neutral} {
		fmt.Fprintf(text, "| %s |", map[breaker.Kind]string{breaker.Success: "success", breaker.Failure: "failure", breaker.Neutral: "neutral"}[k])
		for _, n := range s.sum.settled[k] {
			fmt.Fprintf(text, " %d |", n)
		}
		text.WriteString("\n")
	}
}

func writeMoves(text *strings.Builder, all map[move]int) {
	text.WriteString("\n| transition | reason | times |\n|---|---|--:|\n")
	moves := slices.SortedFunc(maps.Keys(all), func(a, b move) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.reason, b.reason))
	})
	for _, m := range moves {
		fmt.Fprintf(text, "| %s → %s | %s | %d |\n", m.from, m.to, m.reason, all[m])
	}
}

func (s *soak) writeDeeds(text *strings.Builder) {
	var expired uint64
	for _, now := range s.registry.Circuits() {
		expired += now.LeaseExpired
	}
	fmt.Fprintf(text, "\n- %d calls admitted, %d of them as probes; %d refused.\n", s.sum.admitted, s.sum.probes, s.sum.refused)
	fmt.Fprintf(text, "- %d permits forgotten, %d calls panicked, %d ended their goroutine, %d ended twice; %d leases of probes ran out.\n",
		s.sum.forgotten, s.sum.panicked, s.sum.exited, s.sum.doubleDone, expired)
	fmt.Fprintf(text, "- %d commands, %d reconfigurations; %d circuits let go and seen again; %d events dropped.\n",
		s.commands, s.reconfigured, s.chronicle.reborn, s.registry.EventsDropped())
	fmt.Fprintf(text, "- All circuits closed %v after the load.\n", s.recovery.Round(time.Millisecond))
	most := 0
	for _, one := range s.samples {
		most = max(most, one.goroutines)
	}
	fmt.Fprintf(text, "- Live heap %s in the second quarter, %s in the last (median; %s at most is due); at most %d goroutines.\n",
		mib(s.quarter(1)), mib(s.quarter(3)), mib(mayReach(s.quarter(1))), most)
}

func writePromises(text *strings.Builder, b *breaches, promises ...promise) {
	text.WriteString("\n| promise | |\n|---|---|\n")
	for _, p := range promises {
		verdict := "kept"
		if times, _ := b.of(p); times > 0 {
			verdict = fmt.Sprintf("**broken** (%d)", times)
		}
		fmt.Fprintf(text, "| %s | %s |\n", p, verdict)
	}
}
