package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rule is a rule of Prometheus: an alert, or an expression with a name.
type rule struct {
	Alert       string            `yaml:"alert"`
	Record      string            `yaml:"record"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func readRules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	readYAML(t, rulesFile, &file)
	var all []rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no rules", rulesFile)
	}
	return all
}

func alerts(t *testing.T) map[string]rule {
	t.Helper()
	named := map[string]rule{}
	for _, r := range readRules(t) {
		if r.Alert != "" {
			named[r.Alert] = r
		}
	}
	return named
}

func TestPrometheusTakesTheRules(t *testing.T) {
	t.Parallel()
	if said, ok := run(t, "promtool", "check", "rules", "--lint=all", "--lint-fatal", rulesFile); !ok {
		t.Errorf("promtool check rules:\n%s", said)
	}
}

// The cases are written in promtool's own form, beside the rules.
func TestAlertsFireWhenTheyShouldAndOnlyThen(t *testing.T) {
	t.Parallel()
	if said, ok := run(t, "promtool", "test", "rules", "prometheus/rules_test.yml", "prometheus/reminders_test.yml"); !ok {
		t.Errorf("promtool test rules:\n%s", said)
	}
}

// A case says which alerts fire, so every other one is silent there: it is enough
// that some case has each.
func TestEveryAlertFiresInSomeCase(t *testing.T) {
	t.Parallel()
	fires := map[string]bool{}
	for _, file := range []string{"prometheus/rules_test.yml", "prometheus/reminders_test.yml"} {
		var cases struct {
			Tests []struct {
				Expressions []struct {
					Expected []struct {
						Labels string `yaml:"labels"`
					} `yaml:"exp_samples"`
				} `yaml:"promql_expr_test"`
			} `yaml:"tests"`
		}
		readYAML(t, file, &cases)
		for _, c := range cases.Tests {
			for _, e := range c.Expressions {
				for _, s := range e.Expected {
					for _, m := range matching.FindAllStringSubmatch(s.Labels, -1) {
						fires[m[3]] = fires[m[3]] || m[1] == "alertname"
					}
				}
			}
		}
	}
	for name := range alerts(t) {
		if !fires[name] {
			t.Errorf("%s fires in no case", name)
		}
	}
}

func TestRulesAskOnlyForWhatAGatewaySays(t *testing.T) {
	t.Parallel()
	v := scraped(t)
	used := regexp.MustCompile(`\$labels\.(\w+)`)
	for _, r := range readRules(t) {
		q, err := parse(r.Expr)
		if err != nil {
			t.Errorf("%s: %v", r.Alert+r.Record, err)
			continue
		}
		for _, fault := range q.faults(v) {
			t.Errorf("%s: %s", r.Alert+r.Record, fault)
		}
		results := q.results(v)
		if r.Record != "" {
			v[r.Record] = values{}
			for _, label := range results {
				v[r.Record][label] = nil
			}
		}
		for name, text := range r.Annotations {
			for _, label := range used.FindAllStringSubmatch(text, -1) {
				if !slices.Contains(results, label[1]) {
					t.Errorf("%s: the %s speaks of %s, which is not among %v", r.Alert, name, label[1], results)
				}
			}
		}
	}
}

// Otherwise installations that one Prometheus watches would hide each other.
func TestRulesKeepInstallationsApart(t *testing.T) {
	t.Parallel()
	for _, r := range readRules(t) {
		for _, list := range grouping.FindAllStringSubmatch(r.Expr, -1) {
			if !strings.HasPrefix(list[1], "namespace, job") && list[1] != "job, instance" {
				t.Errorf("%s groups by (%s), want namespace and job first", r.Alert+r.Record, list[1])
			}
		}
	}
}

func TestEveryAlertSaysHowBadItIsAndLeadsToItsParagraph(t *testing.T) {
	t.Parallel()
	handbook := string(read(t, handbookFile))
	for name, alert := range alerts(t) {
		if severity := alert.Labels["severity"]; !slices.Contains([]string{"critical", "warning", "info"}, severity) {
			t.Errorf("%s: severity %q, want critical, warning or info", name, severity)
		}
		for _, text := range []string{"summary", "description"} {
			if alert.Annotations[text] == "" {
				t.Errorf("%s has no %s", name, text)
			}
		}
		want := "https://github.com/breakwater-llm/breakwater/blob/main/docs/operations.md#" + strings.ToLower(name)
		if got := alert.Annotations["runbook_url"]; got != want {
			t.Errorf("%s: runbook_url %q, want %q", name, got, want)
		}
		_, paragraph, _ := strings.Cut(handbook, "\n#### "+name+"\n")
		paragraph, _, _ = strings.Cut(paragraph, "\n#")
		for _, part := range []string{"**Means.**", "**Callers.**", "**Do.**"} {
			if !strings.Contains(paragraph, part) {
				t.Errorf("the handbook's paragraph %q has no %s", "#### "+name, part)
			}
		}
	}
}
