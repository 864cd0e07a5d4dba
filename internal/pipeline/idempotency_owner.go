package pipeline

import (
	"context"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// own runs the call for all that join it. However it ends, the key is settled.
func (k *keyed) own(f *flight) (result *llm.Result, err error) {
	emit, ended := k.emit, unrelayed
	if k.call.Facts.Stream {
		f.stream = newRecording(k.MaxResult)
		r := &relay{recording: f.stream, signals: k.call.Signals, up: k.emit}
		defer r.finish()
		emit, ended = f.noting(k.call.Signals, r.emit), r.ended
	}
	f.confirm(true)
	stop := k.keys.Hold(k.asker)
	returned := false
	defer func() {
		if !returned {
			k.settle(f, nil, panicked(llm.Target{}), stop)
		}
	}()
	result, err = k.next(k.ctx, k.call, emit)
	returned = true
	k.settle(f, result, err, stop)
	if err != nil {
		return result, err
	}
	return ended(result)
}

// noting notes the origin of a stream before anybody can hear of its first event.
func (f *flight) noting(signals *llm.Signals, emit llm.Emit) llm.Emit {
	begun := false
	return func(event llm.Event) error {
		if !begun {
			begun = true
			f.origin = origin{signals.InHand(), signals.Degraded}
		}
		return emit(event)
	}
}

// unrelayed is the end of a call that is no stream.
func unrelayed(result *llm.Result) (*llm.Result, error) { return result, nil }

// settle stores what came of the call, or frees the key, before anybody is told.
// Failures are never stored, nor is what stood in for an answer.
func (k *keyed) settle(f *flight, result *llm.Result, err error, stop func()) {
	if failure := llm.AsFailure(err); failure != nil && failure.Reason == llm.ReasonShutdown { // of this gateway alone: others may go on
		k.close(f, landing{err: err}, stop, k.free(nil))
		return
	}
	if err != nil {
		k.close(f, landing{err: err}, stop, k.free(encodeFailure(err)))
		return
	}
	if result == nil { // a fault of the pipeline's, which the api answers
		k.close(f, landing{again: true}, stop, k.free(nil))
		return
	}
	a := k.answerOf(f, result)
	switch {
	case a == nil: // a stream that was too large to be written down
		k.stored = true
		k.close(f, landing{err: tooLarge()}, stop, k.mark())
	case a.degraded != "":
		k.close(f, landing{answer: a}, stop, k.free(nil))
	case len(a.body) > k.MaxResult:
		k.stored = true
		k.close(f, landing{answer: a}, stop, k.mark())
	default:
		k.stored = true
		k.close(f, landing{answer: a}, stop, k.keep(a.encode()))
	}
}

// answerOf is what others are given of the answer; nil when it was too large.
func (k *keyed) answerOf(f *flight, result *llm.Result) *answer {
	a := &answer{run: k.asker.Token, target: result.Target, status: result.Status, contentType: result.ContentType, body: result.Body}
	a.degraded = k.call.Signals.Degraded
	if f.stream == nil || result.Body != nil {
		return a
	}
	a.streamed = true
	var whole bool
	if a.body, a.pieces, whole = f.stream.whole(); !whole {
		return nil
	}
	return a
}

// tooLarge is what those get who wait for an answer that is not kept. They are not
// asked to come back: that would be another call.
func tooLarge() error {
	return &llm.Failure{Class: llm.ClassIdempotency, Reason: llm.ReasonAnswerTooLarge}
}

// The three things that the store may be told of a call that has ended. They hold
// nothing of the call itself: the store may be away for longer than it.
func (c claimed) keep(stored []byte) func(context.Context) error {
	return func(ctx context.Context) error {
		mine, err := c.keys.Keep(ctx, c.asker, stored, c.TTL)
		return c.kept(KeyResultStored, mine, err)
	}
}

func (c claimed) mark() func(context.Context) error {
	return func(ctx context.Context) error {
		mine, err := c.keys.Mark(ctx, c.asker, c.TTL)
		return c.kept(KeyResultOversized, mine, err)
	}
}

func (c claimed) free(failure []byte) func(context.Context) error {
	return func(ctx context.Context) error { return c.keys.Free(ctx, c.asker, failure) }
}

func (c claimed) kept(as string, mine bool, err error) error {
	switch {
	case err != nil:
	case mine:
		c.count(as)
	default:
		c.count(KeyResultFenced)
	}
	return err
}

const (
	// owedFor is how long a store that was away at the end of a call is tried again:
	// as long as the key is held for its owner without a sign of life.
	owedFor = 30 * time.Second
	// owedEvery is the pause between two trials.
	owedEvery = time.Second
	// mostOwed is how many bytes of answers may wait for the store.
	mostOwed = 64 << 20
)

// close tells the store what came of the call, and then those who joined it. While
// the store is away this process remembers an answer by itself, for a time.
func (k *keyed) close(f *flight, l landing, stop func(), tell func(context.Context) error) {
	ctx := context.WithoutCancel(k.ctx)
	err := tell(ctx)
	if err != nil {
		err = tell(ctx)
	}
	if err == nil {
		stop()
		k.flights.end(f, l)
		return
	}
	d := &debt{flights: k.flights, flight: f, until: time.Now().Add(owedFor), stop: stop, tell: tell}
	if l.answer != nil {
		d.bytes = int64(len(l.answer.body))
	}
	if l.answer == nil || !d.borrow() {
		k.flights.end(f, l)
	} else {
		k.flights.linger(f, l)
	}
	time.AfterFunc(owedEvery, d.pay)
}

// debt is what the store has not been told.
type debt struct {
	flights *Flights
	flight  *flight
	until   time.Time
	stop    func()
	tell    func(context.Context) error
	bytes   int64
}

// borrow takes room for an answer that waits.
func (d *debt) borrow() bool {
	if d.flights.owed.Add(d.bytes) <= mostOwed {
		return true
	}
	d.flights.owed.Add(-d.bytes)
	d.bytes = 0
	return false
}

// pay tries again, until the store knows or nobody would wait for it any more.
func (d *debt) pay() {
	if d.tell(context.Background()) != nil && time.Now().Before(d.until) {
		time.AfterFunc(owedEvery, d.pay)
		return
	}
	d.stop()
	d.flights.owed.Add(-d.bytes)
	d.flights.forget(d.flight)
}
