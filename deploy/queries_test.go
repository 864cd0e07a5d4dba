package deploy_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// query is what matters here of an expression: what it selects, and by which
// labels it groups or matches. promtool judges the grammar.
type query struct {
	selectors []selector
	groups    []string
}

type selector struct {
	metric   string
	matchers []matcher
}

type matcher struct{ label, operator, value string }

var (
	grouping = regexp.MustCompile(`\b(?:by|on)\s*\(([^)]*)\)`)
	shunned  = regexp.MustCompile(`\b(?:without|ignoring|group_left|group_right|offset)\b`)
	// In this order: what stands in quotes, ranges, and names with what is in
	// braces behind them or the parenthesis of a function.
	piece    = regexp.MustCompile(`"[^"]*"|\[[^\]]*\]|([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{(?:[^"}]|"[^"]*")*\}|\()?|[0-9.]+`)
	matching = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	words    = []string{"and", "or", "unless", "bool", "by", "on"}
)

// parse reads an expression, with the variables of Grafana already replaced.
func parse(expr string) (query, error) {
	if found := shunned.FindString(expr); found != "" {
		return query{}, fmt.Errorf("%s is not understood here; write it otherwise or teach parse about it: %s", found, expr)
	}
	var q query
	for _, list := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(list[1], ",") {
			q.groups = append(q.groups, strings.TrimSpace(label))
		}
	}
	for _, p := range piece.FindAllStringSubmatch(grouping.ReplaceAllString(expr, " "), -1) {
		if p[1] == "" || p[2] == "(" || slices.Contains(words, p[1]) {
			continue
		}
		s := selector{metric: p[1]}
		for _, m := range matching.FindAllStringSubmatch(p[2], -1) {
			s.matchers = append(s.matchers, matcher{m[1], m[2], m[3]})
		}
		q.selectors = append(q.selectors, s)
	}
	if len(q.selectors) == 0 {
		return query{}, fmt.Errorf("no metric found in %s", expr)
	}
	return q, nil
}

func (q query) metrics() []string {
	names := make([]string, len(q.selectors))
	for i, s := range q.selectors {
		names[i] = s.metric
	}
	return names
}

// results are the labels that what comes out of the query can have.
func (q query) results(v vocabulary) []string {
	if len(q.groups) > 0 {
		return q.groups
	}
	return v.labels(q.metrics())
}

// faults are what the query asks for that no gateway says.
func (q query) faults(v vocabulary) (faults []string) {
	for _, s := range q.selectors {
		if v[s.metric] == nil {
			faults = append(faults, "there is no metric "+s.metric)
			continue
		}
		for _, m := range s.matchers {
			faults = append(faults, m.faults(s.metric, v)...)
		}
	}
	for _, label := range q.groups {
		if !slices.Contains(v.labels(q.metrics()), label) {
			faults = append(faults, fmt.Sprintf("none of %v has a label %s", q.metrics(), label))
		}
	}
	return faults
}

// faults are a label that the metric has not, and values that this never has:
// all values from closed lists are there from the start.
func (m matcher) faults(metric string, v vocabulary) (faults []string) {
	if !slices.Contains(v.labels([]string{metric}), m.label) {
		return []string{fmt.Sprintf("%s has no label %s", metric, m.label)}
	}
	known := v[metric][m.label]
	if len(known) == 0 || m.value == anything {
		return nil
	}
	for value := range strings.SplitSeq(m.value, "|") {
		if !slices.Contains(known, value) {
			faults = append(faults, fmt.Sprintf("%s is never %q of %s", m.label, value, metric))
		}
	}
	return faults
}

// anything is what a variable of Grafana stands for here.
const anything = ".*"
