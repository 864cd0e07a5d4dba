package simulated_test

import (
	"testing"

	"github.com/breakwater-llm/breakwater/internal/leaktest"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider"
	"github.com/breakwater-llm/breakwater/internal/provider/providertest"
	"github.com/breakwater-llm/breakwater/internal/provider/simulated"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestSuite(t *testing.T) {
	t.Parallel()
	modes := map[providertest.Mode]simulated.Mode{
		providertest.Answers: simulated.ModeOK,
		providertest.Refuses: simulated.ModeError,
		providertest.Hangs:   simulated.ModeHang,
		providertest.Resets:  simulated.ModeReset,
		providertest.Cuts:    simulated.ModeCut,
	}
	providertest.Run(t, func(t *testing.T, b providertest.Behaviour, timeouts llm.Timeouts) provider.Client {
		state := simulated.State{Mode: modes[b.Mode], Status: 503, RetryAfter: b.RetryAfter}
		if b.Status != 0 {
			state.Status = b.Status
		}
		return open(t, simulated.NewModel(state), timeouts)
	})
}

func open(t *testing.T, model *simulated.Model, timeouts llm.Timeouts) provider.Client {
	t.Helper()
	client, err := simulated.New(model, timeouts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}
