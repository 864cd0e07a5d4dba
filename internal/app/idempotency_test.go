package app_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/pipeline"
	"github.com/breakwater-llm/breakwater/internal/telemetry"
)

// What the pipeline counts is what metrics begin with.
func TestEveryIdempotencyResultHasASeries(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(pipeline.KeyResults(), telemetry.IdempotencyResults()); diff != "" {
		t.Errorf("results of the pipeline and of the metrics (-want +got):\n%s", diff)
	}
}
