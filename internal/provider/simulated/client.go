package simulated

import (
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider/openai"
)

// New returns a client for the model. The timeouts hold where a call does not
// set its own.
func New(model *Model, timeouts llm.Timeouts) (*openai.Client, error) {
	return openai.New(openai.Config{
		BaseURL:   "http://simulated.invalid/v1", // never dialled
		Timeouts:  timeouts,
		Transport: &transport{model: model},
	})
}
