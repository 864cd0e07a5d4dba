package pipeline_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// An answer that the client did not get is no success of the call, though it is
// one of the target's; and a slow client is no overhead of the gateway's.
func TestTelemetry_AnAnswerThatIsNotDelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		call := newCall(alpha)
		call.Deliver = func(result *llm.Result) error {
			<-time.After(30 * time.Second)
			return &llm.Failure{Class: llm.ClassCancelled, Reason: llm.ReasonSlowReader, Target: result.Target}
		}
		run, _, err := recorded(t.Context(), t, script(alpha, answers(200*ms)), call, nil)
		if err == nil {
			t.Error("the caller is told of a success")
		}
		want := verdict{Outcome: "cancelled", Class: "cancelled", Reason: "slow_reader", Status: 499}
		if diff := cmp.Diff(want, verdictOf(run)); diff != "" {
			t.Errorf("run (-want +got):\n%s", diff)
		}
		if len(run.Attempts) != 1 || run.Attempts[0].Outcome != llm.OutcomeSuccess {
			t.Errorf("attempts = %+v, want one success", run.Attempts)
		}
		if run.Latency != 30*time.Second+200*ms || run.Overhead != 0 {
			t.Errorf("latency %v, overhead %v; want the client's time in the first alone", run.Latency, run.Overhead)
		}
	})
}
