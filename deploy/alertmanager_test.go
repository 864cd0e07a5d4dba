package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAlertmanagerTakesTheExample(t *testing.T) {
	t.Parallel()
	if said, ok := run(t, "amtool", "check-config", alertmanagerFile); !ok {
		t.Errorf("amtool check-config:\n%s", said)
	}
}

func TestWhoIsToldDependsOnTheSeverity(t *testing.T) {
	t.Parallel()
	receivers := map[string]string{"critical": "pager", "warning": "chat", "info": "reminders"}
	for name, alert := range alerts(t) {
		severity := alert.Labels["severity"]
		said, ok := run(t, "amtool", "config", "routes", "test", "--config.file", alertmanagerFile,
			"--verify.receivers", receivers[severity], "alertname="+name, "severity="+severity)
		if !ok {
			t.Errorf("%s, which is %s, does not go to %s:\n%s", name, severity, receivers[severity], said)
		}
	}
}

// inhibition is what one alert keeps others from being told for.
type inhibition struct {
	Source []string `yaml:"source_matchers"`
	Target []string `yaml:"target_matchers"`
	Equal  []string `yaml:"equal"`
}

// covered are the alerts whose name a matcher takes.
func covered(t *testing.T, matchers []string, named map[string]rule) []string {
	t.Helper()
	if len(matchers) != 1 || !strings.HasPrefix(matchers[0], "alertname") {
		t.Fatalf("matchers %v, want one, of alertname", matchers)
	}
	m := matching.FindStringSubmatch(matchers[0])
	if m == nil {
		t.Fatalf("matcher %q is not understood", matchers[0])
	}
	whole := regexp.MustCompile("^(?:" + m[3] + ")$")
	var names []string
	for name := range named {
		if whole.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestTheWiderAlertSilencesTheNarrower(t *testing.T) {
	t.Parallel()
	var file struct {
		Inhibitions []inhibition `yaml:"inhibit_rules"`
	}
	readYAML(t, alertmanagerFile, &file)
	named := alerts(t)
	symptoms := []string{"BreakwaterCircuitFlapping", "BreakwaterCircuitHalfOpen", "BreakwaterFailureRateHigh", "BreakwaterSlowRateHigh"}
	want := map[string][]string{
		"BreakwaterProviderDown": slices.Sorted(slices.Values(append([]string{"BreakwaterCircuitOpen"}, symptoms...))),
		"BreakwaterCircuitOpen":  symptoms,
		"BreakwaterAbsent":       {"BreakwaterInstanceDown"},
	}
	got := map[string][]string{}
	for _, i := range file.Inhibitions {
		targets := covered(t, i.Target, named)
		for _, source := range covered(t, i.Source, named) {
			got[source] = targets
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what alerts silence (-want +got):\n%s", diff)
	}
}

// Labels that neither alert has are equal to Alertmanager: one provider's would
// silence another's.
func TestAlertsSilenceOnlyThoseOfTheSameThing(t *testing.T) {
	t.Parallel()
	var file struct {
		Inhibitions []inhibition `yaml:"inhibit_rules"`
	}
	readYAML(t, alertmanagerFile, &file)
	named := alerts(t)
	speaks := func(alert, label string) bool {
		return strings.Contains(named[alert].Annotations["description"], "$labels."+label)
	}
	for _, i := range file.Inhibitions {
		for _, source := range covered(t, i.Source, named) {
			for _, label := range []string{"provider", "model", "region"} {
				if got, want := slices.Contains(i.Equal, label), speaks(source, label); got != want {
					t.Errorf("%s is about a %s: %t, compared with those it silences: %t", source, label, want, got)
				}
			}
		}
	}
}
