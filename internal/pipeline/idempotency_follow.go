package pipeline

import (
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// follow is a call that has joined a stream: it is given what was said so far, and
// then what is said, as fast as its client takes it.
func (k *keyed) follow(f *flight) (*llm.Result, error) {
	result := &llm.Result{Streamed: true}
	for n := 0; ; {
		raw, next, news, lost := f.stream.after(n)
		switch {
		case lost:
			k.count(KeyResultConflict)
			return result, tooLarge()
		case raw != nil:
			k.call.Signals.Degraded, k.call.Signals.KeptFrom = f.origin.degraded, f.origin.target
			if err := k.send(f.asker.Token, raw); err != nil {
				return result, err
			}
			n = next
		case news != nil:
			if err := k.listen(news); err != nil {
				return result, err
			}
		default:
			return k.followed(f, result)
		}
	}
}

// followed is the end of a stream that was followed to its end.
func (k *keyed) followed(f *flight, result *llm.Result) (*llm.Result, error) {
	if err := k.await(f.over); err != nil {
		return result, err
	}
	k.count(KeyResultJoined)
	switch l := f.landing; {
	case l.err != nil:
		return result, l.err
	case !l.answer.streamed: // what was asked for as a stream came whole
		return k.replay(l.answer)
	default:
		result.Target, result.Status = l.answer.target, l.answer.status
		return result, nil
	}
}

// listen waits for more of a stream: as a call that waits before it has anything,
// and then as long as the stream goes on.
func (k *keyed) listen(news <-chan struct{}) error {
	if !k.call.Signals.Committed {
		return k.await(news)
	}
	began := time.Now()
	defer func() { k.call.Signals.UpstreamTime += time.Since(began) }()
	select {
	case <-news:
		return nil
	case <-k.unlimited():
		return k.gone()
	case <-k.ctx.Done():
		return llm.Cancelled(k.ctx, llm.Target{})
	}
}
