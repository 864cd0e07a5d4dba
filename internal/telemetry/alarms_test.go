package telemetry

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

func TestAlarmLastsUntilTheTargetAnswers(t *testing.T) {
	t.Parallel()
	m1 := llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}
	m2 := llm.Target{Provider: "alpha", Model: "m2", Region: "r1"}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	failed := func(target llm.Target, class llm.FailureClass, later time.Duration) *llm.Attempt {
		return &llm.Attempt{Target: target, Outcome: llm.OutcomeNeutral, FailureClass: class, FinishedAt: at.Add(later)}
	}
	var a alarms

	a.observe(failed(m2, llm.ClassAuth, time.Minute))
	a.observe(failed(m1, llm.ClassAuth, 0))
	a.observe(failed(m1, llm.ClassAuth, time.Hour))
	a.observe(failed(m1, llm.ClassConfiguration, 0))
	a.observe(failed(m1, llm.ClassServerError, 0)) // nothing a person must do
	want := []Alarm{
		{Provider: "alpha", Kind: llm.ClassAuth, Since: at, Count: 3},
		{Provider: "alpha", Kind: llm.ClassConfiguration, Since: at, Count: 1},
	}
	if diff := cmp.Diff(want, a.list()); diff != "" {
		t.Errorf("alarms (-want +got):\n%s", diff)
	}

	if _, ended := a.observe(&llm.Attempt{Target: m1, Outcome: llm.OutcomeSuccess}); !ended {
		t.Error("an answer of m1 ended nothing")
	}
	want = []Alarm{{Provider: "alpha", Kind: llm.ClassAuth, Since: at.Add(time.Minute), Count: 1}}
	if diff := cmp.Diff(want, a.list()); diff != "" {
		t.Errorf("alarms after m1 answered (-want +got):\n%s", diff)
	}

	a.observe(&llm.Attempt{Target: m2, Outcome: llm.OutcomeSuccess})
	if got := a.list(); len(got) != 0 || a.any.Load() {
		t.Errorf("alarms after all answered are %v, want none", got)
	}
}

// One of several credentials that is refused stays an alarm while the others
// serve every call, until it serves one itself.
func TestAlarmOfOneCredentialLastsUntilItServes(t *testing.T) {
	t.Parallel()
	target := llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	answered := func(credential int, refusals ...llm.CredentialRefusal) *llm.Attempt {
		return &llm.Attempt{Target: target, Outcome: llm.OutcomeSuccess, Credential: credential, Refusals: refusals, FinishedAt: at}
	}
	var a alarms

	refused := llm.CredentialRefusal{Credential: 1, Class: llm.ClassAuth, Reason: llm.ReasonInvalidCredentials}
	limited := llm.CredentialRefusal{Credential: 2, Class: llm.ClassRateLimit, Reason: llm.ReasonRateLimited}
	raised, ended := a.observe(answered(3, refused, limited))
	if diff := cmp.Diff([]llm.CredentialRefusal{refused}, raised); diff != "" || ended {
		t.Errorf("raised (-want +got):\n%s\nended %v", diff, ended)
	}
	a.observe(answered(2))
	if diff := cmp.Diff([]Alarm{{Provider: "alpha", Kind: llm.ClassAuth, Since: at, Count: 1}}, a.list()); diff != "" {
		t.Errorf("alarms after another credential served (-want +got):\n%s", diff)
	}
	if _, ended := a.observe(answered(1)); !ended || len(a.list()) != 0 {
		t.Errorf("alarms after the credential served are %v, want none", a.list())
	}
}

// A reload ends the alarms of credentials that are no longer there, and no other.
func TestReloadEndsAlarmsOfCredentialsThatAreGone(t *testing.T) {
	t.Parallel()
	target := llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}
	known := func(credentials int) Known {
		return Known{Targets: []llm.Target{target}, Credentials: map[string]int{"alpha": credentials}}
	}
	m := NewMetrics(prometheus.NewRegistry(), known(3), slog.New(slog.DiscardHandler))
	m.Record(llm.Run{Attempts: []llm.Attempt{{Target: target, Outcome: llm.OutcomeSuccess, Credential: 2, Refusals: []llm.CredentialRefusal{
		{Credential: 1, Class: llm.ClassQuota}, {Credential: 3, Class: llm.ClassAuth},
	}}}})

	m.Learn(known(3))
	if got := m.Alarms(); len(got) != 2 {
		t.Errorf("alarms %v, want both", got)
	}
	m.Learn(known(2))
	if got := m.Alarms(); len(got) != 1 || got[0].Kind != llm.ClassQuota {
		t.Errorf("alarms %v, want that of the first credential alone", got)
	}
}
