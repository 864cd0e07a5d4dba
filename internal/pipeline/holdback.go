package pipeline

import (
	"bytes"
	"context"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

const (
	// maxHeld is how much of a stream is kept back before its first content.
	maxHeld = 64 << 10
	// heldOverhead is what an event without bytes counts, so that they are
	// bounded, too.
	heldOverhead = 64
)

// holdingBack is the commit point of a stream: headers, role-only deltas and
// created events stay here until the first content goes up. Before it, another
// send or another target costs the client nothing; above it, any call of Emit
// means that the client has seen a part of the answer.
func holdingBack(next Handler) Handler {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		h := holdBack{signals: call.Signals, up: emit}
		result, err := next(ctx, call, h.emit)
		if err == nil {
			h.finish()
		}
		if h.gone != nil {
			err = &llm.Failure{
				Class: llm.ClassCancelled, Reason: llm.CancelReason(h.gone), Target: call.Target, Err: h.gone,
			}
		}
		return result, err
	}
}

// holdBack is the stream of one send.
type holdBack struct {
	signals *llm.Signals
	up      llm.Emit

	held      []llm.Event
	size      int
	committed bool
	gone      error // why the client cannot be reached any more
}

func (h *holdBack) emit(event llm.Event) error {
	content := event.Kind == llm.EventContent
	if !h.committed && !content && h.fits(event) {
		h.hold(event)
		return nil
	}
	if content && h.signals.FirstContent.IsZero() {
		h.signals.FirstContent = time.Now()
	}
	h.commit(true)
	h.pass(event)
	return h.gone
}

func (h *holdBack) fits(event llm.Event) bool {
	return h.size+len(event.Raw)+heldOverhead <= maxHeld
}

func (h *holdBack) hold(event llm.Event) {
	event.Raw = bytes.Clone(event.Raw)
	h.held = append(h.held, event)
	h.size += len(event.Raw) + heldOverhead
}

// finish sends what is still held of a stream that ended well without content:
// an empty answer is an answer.
func (h *holdBack) finish() {
	if len(h.held) > 0 {
		h.commit(false)
	}
}

// commit sends what was held; more says whether another event follows at once.
func (h *holdBack) commit(more bool) {
	h.committed, h.signals.Committed = true, true
	for i, event := range h.held {
		event.More = more || i < len(h.held)-1
		h.pass(event)
	}
	h.held = nil
}

// pass hands an event up unless the client is known to be gone.
func (h *holdBack) pass(event llm.Event) {
	if h.gone == nil {
		h.gone = h.up(event)
	}
}
