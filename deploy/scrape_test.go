package deploy_test

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

// values are those that each label of a metric has.
type values map[string][]string

// vocabulary is every metric that a query may name, with its labels.
type vocabulary map[string]values

// ambient are the labels that Prometheus gives to what it scrapes.
var ambient = []string{"namespace", "job", "instance"}

// scraped is what a gateway says of itself that has two targets, a context assembler and limits and has
// served nothing yet, and what Prometheus adds.
func scraped(t *testing.T) vocabulary {
	t.Helper()
	g := apptest.Start(t, `
providers:
  alpha: {kind: simulated, models: {m1: {input: 1, output: 5}}}
  beta: {kind: simulated, models: {m1: {input: 1, output: 5}}}
configurations:
  spent: {targets: [{provider: alpha, model: m1}], limits: {requests_per_day: 9, tokens_per_day: 9, cost_per_day: 9, requests_per_month: 9, tokens_per_month: 9, cost_per_month: 9, requests_per_minute: 9, tokens_per_minute: 9, concurrent: 9}}
  chat: {targets: [{provider: alpha, model: m1}, {provider: beta, model: m1}], context: {address: "127.0.0.1:1"}}
`)
	answer := apptest.Get(t, g.AdminURL+"/metrics")
	if answer.Status != http.StatusOK {
		t.Fatalf("the metrics: status %d, want 200", answer.Status)
	}
	v := vocabulary{
		"up":     {},
		"ALERTS": {"alertname": nil, "alertstate": {"firing", "pending"}, "severity": nil},
	}
	for line := range strings.Lines(answer.Body) {
		if !strings.HasPrefix(line, "#") {
			v.add(line)
		}
	}
	return v
}

var (
	sample = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? `)
	pair   = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="([^"]*)"`)
)

// add learns a line of a scrape.
func (v vocabulary) add(line string) {
	parts := sample.FindStringSubmatch(line)
	if parts == nil {
		return
	}
	if v[parts[1]] == nil {
		v[parts[1]] = values{}
	}
	for _, p := range pair.FindAllStringSubmatch(parts[2], -1) {
		v[parts[1]][p[1]] = append(v[parts[1]][p[1]], p[2])
	}
}

// labels are those that series of the metrics may have.
func (v vocabulary) labels(metrics []string) []string {
	all := slices.Clone(ambient)
	for _, metric := range metrics {
		all = slices.AppendSeq(all, maps.Keys(v[metric]))
	}
	return all
}
