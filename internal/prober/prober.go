// Package prober asks on the gateway's own account: with a canary whether the
// target of an open circuit is well again, before a caller finds out, and with
// health checks whether a provider answers at all. It decides what is asked and
// when, and whether an answer is a good one. It must not know configurations,
// dialects, HTTP or the database: how a question is put and what becomes of the
// answer is told to it.
package prober

import (
	"cmp"
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// grace is how much later than its own clock a question is given up altogether.
const grace = time.Second

// ask begins a call for no caller. It may take so long, whatever the provider's
// own clocks say.
func ask(operation llm.Operation, target llm.Target, timeout time.Duration) *llm.Call {
	now := time.Now()
	return &llm.Call{
		RunID: uuid.Must(uuid.NewV7()), CorrelationID: operation.CorrelationID(target), ReceivedAt: now,
		Operation: operation, RequestedModel: target.Provider + "/" + target.Model,
		Targets: []llm.Target{target}, Target: target,
		Timeouts: llm.Timeouts{Total: timeout}, Deadline: now.Add(timeout + grace),
		StatusOf: status, Deliver: nobody,
		Signals: &llm.Signals{},
	}
}

// status is that of the provider: there is no client who got another.
func status(err error) int { return llm.AsFailure(err).Status }

// nobody is told the answer.
func nobody(*llm.Result) error { return nil }

// untilShutdown ends with ctx, whose end means that the gateway stops.
func untilShutdown(ctx context.Context) (context.Context, context.CancelFunc) {
	asking, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, func() { cancel(llm.ErrShutdown) })
	return asking, func() { detach(); cancel(nil) }
}

// guarded runs what asks. A fault of ours in it must not end the gateway, which
// has callers.
func guarded(log *slog.Logger, operation llm.Operation, target llm.Target, asks func()) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("a call of the gateway's own broke off", "operation", string(operation), "target", target.Key(),
				"panic", llm.DescribePanic(p), "stack", string(debug.Stack()))
		}
	}()
	asks()
}

// reason is the most that may be logged of why something went wrong.
func reason(err error) string {
	f := llm.AsFailure(err)
	return string(cmp.Or(f.Reason, llm.Reason(f.Class)))
}
