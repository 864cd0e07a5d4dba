package admin

import (
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"1 call":                  count(1, "call"),
		"0 calls":                 count(0, "call"),
		"1,304 calls":             count(uint64(1304), "call"),
		"999":                     grouped(999),
		"-1,234,567":              grouped(-1234567),
		"0 bytes":                 size(0),
		"1 byte":                  size(1),
		"1 KiB":                   size(1024),
		"1.5 MiB":                 size(3 << 19),
		"3 TiB":                   size(3 << 40),
		"0 s":                     span(0),
		"1 s":                     span(time.Millisecond), // never over before it is
		"59 s":                    span(59 * time.Second),
		"1 min":                   span(time.Minute),
		"1 min 30 s":              span(90 * time.Second),
		"2 h 5 min":               span(2*time.Hour + 5*time.Minute),
		"1 d":                     span(24 * time.Hour),
		"just now":                ago(59 * time.Second),
		"59 min ago":              ago(time.Hour - 1),
		"23 h ago":                ago(24*time.Hour - 1),
		"3 d ago":                 ago(80 * time.Hour),
		"9,999 ms":                millis(9999),
		"10.0 s":                  millis(10_000),
		"0.41 ms":                 micros(410),
		"0 %":                     percent(0),
		"< 0.1 %":                 percent(0.0004),
		"33.3 %":                  percent(1.0 / 3),
		"> 99.9 %":                percent(0.9996),
		"100 %":                   percent(1),
		"$0.0064":                 dollars(decimal.RequireFromString("0.00641")),
		"$0.0000123":              dollars(decimal.RequireFromString("0.0000123")),
		"$0.0000":                 dollars(decimal.Zero), // free, which is not unknown
		"unpriced":                cost(nil, true),
		"":                        cost(nil, false),
		"1,204 in, ? out":         tokens(new(int64(1204)), nil),
		"Success":                 sentence("success"),
		"connection (dns)":        failure(new("connection"), new("dns")),
		"circuit_open":            failure(new("circuit_open"), new("circuit_open")),
		"21:45:00 UTC":            clock(noon, noon).Text,
		"2026-11-28 21:45:00 UTC": clock(noon.Add(-24*time.Hour), noon).Text,
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

var noon = time.Date(2026, 11, 29, 21, 45, 0, 0, time.UTC)

func TestEveryReasonIsSaidInWords(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{
		breaker.ReasonConsecutive, breaker.ReasonFailureRate, breaker.ReasonSlowRate, breaker.ReasonRetryAfter, breaker.ReasonHalfOpen, breaker.ReasonProbeSuccess,
		breaker.ReasonProbeFailure, breaker.ReasonProbeLost, breaker.ReasonHalfOpenTimeout,
		breaker.ReasonOperator, breaker.ReasonOverrideOver,
	} {
		if got := reasonInWords(breaker.Snapshot{Reason: reason}); got == reason || got == "" {
			t.Errorf("%s is said as %q", reason, got)
		}
	}
	if got := reasonInWords(breaker.Snapshot{Reason: "news"}); got != "news" {
		t.Errorf("a reason without words is said as %q, want it as it is", got)
	}
}

func TestStatesInWords(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		circuit          breaker.Snapshot
		state, why, next string
	}{
		"never called": {breaker.Snapshot{}, "Closed", "No call yet", ""},
		"closed":       {breaker.Snapshot{Key: "k", Enabled: true}, "Closed", "", ""},
		"on a streak":  {breaker.Snapshot{Key: "k", Enabled: true, ConsecutiveFailures: 2}, "Closed", "2 failures in a row", ""},
		"some failed":  {breaker.Snapshot{Key: "k", Enabled: true, Calls: 1200, Failures: 3, ConsecutiveFailures: 1}, "Closed", "3 of the last 1,200 calls failed", ""},
		"only failed":  {breaker.Snapshot{Key: "k", Enabled: true, Calls: 2, Failures: 2, ConsecutiveFailures: 2}, "Closed", "2 failures in a row", ""},
		"too many failed": {
			breaker.Snapshot{Key: "k", Enabled: true, State: breaker.Open, Eligible: true, Reason: breaker.ReasonFailureRate, Cause: "server_error", Calls: 10, Failures: 6},
			"Probe due", "6 of the last 10 calls failed (server_error)", "With the next call",
		},
		"recovered":  {breaker.Snapshot{Key: "k", Enabled: true, Reason: breaker.ReasonProbeSuccess}, "Closed", "A probe succeeded", ""},
		"no breaker": {breaker.Snapshot{Key: "k"}, "Off", "Switched off: every call goes through", ""},
		"told to wait": {
			breaker.Snapshot{Key: "k", Enabled: true, State: breaker.Open, Reason: breaker.ReasonRetryAfter, Cause: "rate_limit", RetryAfter: 90 * time.Second},
			"Open", "The provider asked to be left alone (rate_limit)", "In 1 min 30 s",
		},
		"no credit": {
			breaker.Snapshot{Key: "k", Enabled: true, State: breaker.Open, Reason: breaker.ReasonRetryAfter, Cause: "quota", RetryAfter: time.Second},
			"Open", "The provider says that no credit is left (quota)", "In 1 s",
		},
		"eligible": {
			breaker.Snapshot{Key: "k", Enabled: true, State: breaker.Open, Eligible: true, Reason: breaker.ReasonProbeLost, Cause: "connection"},
			"Probe due", "A probe never came back (connection)", "With the next call",
		},
		"probing": {
			breaker.Snapshot{Key: "k", Enabled: true, State: breaker.HalfOpen, Reason: breaker.ReasonHalfOpen, Cause: "connection"},
			"Half-open", "Cooldown over, being probed (connection)", "Under way",
		},
		"forced open": {
			breaker.Snapshot{Key: "k", Enabled: true, State: breaker.ForcedOpen, Reason: breaker.ReasonOperator, Actor: "anna", Note: "vendor says so"},
			"Forced open", "By anna: vendor says so", "When an operator closes it",
		},
		"forced open for a while": {
			breaker.Snapshot{Key: "k", Enabled: true, State: breaker.ForcedOpen, Reason: breaker.ReasonOperator, Actor: "anna", Until: noon.Add(time.Minute)},
			"Forced open", "By anna, who gave no reason", "Probed from 21:46:00 UTC on",
		},
		"disabled": {
			breaker.Snapshot{Key: "k", Enabled: true, State: breaker.Disabled, Reason: breaker.ReasonOperator, Actor: "anna", Note: "upgrade"},
			"Disabled", "By anna: upgrade", "",
		},
		"shadow for a while": {
			breaker.Snapshot{Key: "k", Enabled: true, State: breaker.Shadow, Reason: breaker.ReasonOperator, Actor: "anna", Note: "watch", Failures: 3, Calls: 9, Until: noon.Add(time.Minute)},
			"Shadow", "By anna: watch", "Closed at 21:46:00 UTC",
		},
		"forced open though switched off": {
			breaker.Snapshot{Key: "k", State: breaker.ForcedOpen, Reason: breaker.ReasonOperator, Note: "x", Until: noon.Add(time.Minute)},
			"Forced open", "By an operator: x", "Off again at 21:46:00 UTC",
		},
		"closed by an operator": {breaker.Snapshot{Key: "k", Enabled: true, Reason: breaker.ReasonOperator}, "Closed", "An operator said so", ""},
	} {
		subject := target{circuit: test.circuit}
		if got := subject.state().Text; got != test.state {
			t.Errorf("%s: state %q, want %q", name, got, test.state)
		}
		if got := subject.why(); got != test.why {
			t.Errorf("%s: why %q, want %q", name, got, test.why)
		}
		if got := subject.nextProbe(noon); got != test.next {
			t.Errorf("%s: next %q, want %q", name, got, test.next)
		}
	}
}

func TestAlarmsSayWhatAPersonCanDo(t *testing.T) {
	t.Parallel()
	said := map[string]llm.FailureClass{}
	for _, kind := range []llm.FailureClass{llm.ClassAuth, llm.ClassQuota, llm.ClassConfiguration} {
		why, remedy := alarmInWords(kind)
		if other, taken := said[why+remedy]; taken || why == "" || remedy == "" {
			t.Errorf("%s is said as %q, %q, the same as %q", kind, why, remedy, other)
		}
		said[why+remedy] = kind
	}
}
