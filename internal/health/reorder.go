package health

import (
	"cmp"
	"context"
	"slices"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Reorder puts the candidates of a call in the order of their scores, the best
// first; equals keep the configured order, and a target without data stands
// between the well and the sick. The first candidate keeps its place unless
// ReorderPrimary is set. Off, the list comes back as it is. It reads the
// snapshot only, never the database, and leaves its argument alone.
func (s *Service) Reorder(_ context.Context, targets []llm.Target) []llm.Target {
	settings := s.declared.Load().settings
	fixed := 1
	if settings.ReorderPrimary {
		fixed = 0
	}
	if !settings.ReorderFallback || len(targets) < fixed+2 {
		return targets
	}
	scores := s.snapshot.Load().Targets
	order := func(t llm.Target) float64 {
		if score, known := scores[t].Score(settings.LatencyCeiling); known {
			return score
		}
		return neutral
	}
	sorted := slices.Clone(targets)
	slices.SortStableFunc(sorted[fixed:], func(a, b llm.Target) int { return cmp.Compare(order(b), order(a)) })
	return sorted
}
