package health

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Report is everyone's health as people see it. Scores always come with their
// samples, the window and whether they are acted on; null is "no data".
type Report struct {
	WindowMs        int64            `json:"window_ms"`
	ReorderFallback bool             `json:"reorder_fallback"`
	ReorderPrimary  bool             `json:"reorder_primary"`
	RefreshedAt     *time.Time       `json:"refreshed_at"` // nil before the first refresh
	Stale           bool             `json:"stale"`        // the last refresh failed; these are the values before it
	Providers       []ProviderReport `json:"providers"`
}

// ProviderReport is a provider over all its targets, and each of them.
type ProviderReport struct {
	Provider string `json:"provider"`
	Figures
	Targets []TargetReport `json:"targets"`
}

// TargetReport is one target of a provider.
type TargetReport struct {
	Model  string `json:"model"`
	Region string `json:"region"`
	Figures
	LatencyP50Ms *int64 `json:"latency_p50_ms"`
	LatencyP99Ms *int64 `json:"latency_p99_ms"`
	TTFTP50Ms    *int64 `json:"ttft_p50_ms"`
}

// Figures are what a score is made of.
type Figures struct {
	Score         *float64 `json:"score"`
	Samples       int64    `json:"samples"`
	SuccessRate   *float64 `json:"success_rate"`
	LatencyMeanMs *int64   `json:"latency_mean_ms"`
}

// Report shows every declared target from the snapshot, by the name of its
// provider and then in the order of the declaration.
func (s *Service) Report() Report {
	declared, snapshot := s.declared.Load(), s.snapshot.Load()
	settings := declared.settings
	report := Report{
		WindowMs:        settings.Window.Milliseconds(),
		ReorderFallback: settings.ReorderFallback,
		ReorderPrimary:  settings.ReorderPrimary,
		Stale:           snapshot.stale,
		Providers:       []ProviderReport{},
	}
	if !snapshot.at.IsZero() {
		report.RefreshedAt = &snapshot.at
	}
	for _, t := range byProvider(declared.targets) {
		n := len(report.Providers)
		if n == 0 || report.Providers[n-1].Provider != t.Provider {
			report.Providers = append(report.Providers, ProviderReport{
				Provider: t.Provider,
				Figures:  figures(snapshot.Providers[t.Provider], settings.LatencyCeiling),
			})
			n++
		}
		p := &report.Providers[n-1]
		p.Targets = append(p.Targets, targetReport(t, snapshot.Targets[t], settings.LatencyCeiling))
	}
	return report
}

func byProvider(targets []llm.Target) []llm.Target {
	sorted := slices.Clone(targets)
	slices.SortStableFunc(sorted, func(a, b llm.Target) int { return cmp.Compare(a.Provider, b.Provider) })
	return sorted
}

func targetReport(t llm.Target, s Stats, ceiling time.Duration) TargetReport {
	return TargetReport{
		Model: t.Model, Region: t.Region,
		Figures:      figures(s, ceiling),
		LatencyP50Ms: millis(s.LatencyP50),
		LatencyP99Ms: millis(s.LatencyP99),
		TTFTP50Ms:    millis(s.TTFTP50),
	}
}

func figures(s Stats, ceiling time.Duration) Figures {
	f := Figures{Samples: s.Samples, LatencyMeanMs: millis(s.LatencyMean)}
	if rate, known := s.SuccessRate(); known {
		f.SuccessRate = shown(rate)
	}
	if score, known := s.Score(ceiling); known {
		f.Score = shown(score)
	}
	return f
}

// shown rounds a fraction to four decimals, so that people read 0.912.
func shown(fraction float64) *float64 {
	rounded := math.Round(fraction*1e4) / 1e4
	return &rounded
}

func millis(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	ms := d.Round(time.Millisecond).Milliseconds()
	return &ms
}
