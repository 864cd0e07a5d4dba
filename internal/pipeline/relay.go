package pipeline

import (
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// relay hands a stream to the client that asked for it by way of a recording, so
// that a client that reads slowly holds up nobody else who waits for the stream.
// When the stream outgrows the recording there is nobody else, and it goes on at
// the client's speed. Who makes a relay finishes it.
type relay struct {
	*recording
	signals *llm.Signals
	up      llm.Emit
	outgrew func()           // is told once; may be nil
	goesOn  func(error) bool // whether the call goes on without its client; nil = never
	end     func(error)      // ends a call that does not; nil = it ends by itself

	// Of the goroutine that emits.
	begun  bool
	direct bool          // past the recording
	handed chan struct{} // closed when the recording is handed up; nil before that has begun

	next  int // how many events of the recording have gone up
	fault any // what handing up panicked with

	state sync.Mutex
	gone  error // why the client cannot be reached any more
}

// emit takes an event. The first goes up at once: it settles what the client is told
// in front of it, which nobody may do who runs beside the call.
func (r *relay) emit(event llm.Event) error {
	says := len(event.Raw) > 0
	if says && !r.direct && !r.add(event.Raw) {
		if r.outgrew != nil {
			r.outgrew()
		}
		r.await()
		r.drop()
		r.direct = true
	}
	switch {
	case r.direct:
		r.hand(event)
	case !r.begun:
		r.begun = true
		r.hand(event)
		if says {
			r.next = 1
		}
	case says && r.handed == nil:
		r.handed = make(chan struct{})
		go r.handOn()
	}
	if gone := r.left(); gone != nil && (r.goesOn == nil || !r.goesOn(gone)) {
		return gone
	}
	return nil
}

// handOn hands up what is in the recording, until it is closed or outgrown.
func (r *relay) handOn() {
	defer close(r.handed)
	defer func() { r.fault = recover() }()
	for r.left() == nil {
		raw, next, news := r.backlog(r.next)
		switch {
		case raw != nil:
			r.hand(llm.Event{Raw: raw, Kind: llm.EventContent})
			r.next = next
		case news != nil:
			<-news
		default:
			return
		}
	}
}

// hand hands an event up, unless the client is known to be gone.
func (r *relay) hand(event llm.Event) {
	if r.left() != nil {
		return
	}
	err := r.up(event)
	if err == nil {
		return
	}
	r.state.Lock()
	r.gone = err
	r.state.Unlock()
	if r.end != nil && !r.goesOn(err) {
		r.end(err)
	}
}

// left is why the client cannot be reached any more, or nil.
func (r *relay) left() error {
	r.state.Lock()
	defer r.state.Unlock()
	return r.gone
}

// finish ends the recording and waits until the client has it all, or is gone. It may
// be called twice.
func (r *relay) finish() {
	r.close()
	began := time.Now()
	r.await()
	r.signals.UpstreamTime += time.Since(began) // the client's, not the gateway's
}

// ended finishes a stream that ended well. Its client may not have got it.
func (r *relay) ended(result *llm.Result) (*llm.Result, error) {
	r.finish()
	if gone := r.left(); gone != nil && result != nil {
		return result, lost(gone, result.Target)
	}
	return result, nil
}

// await waits for what runs beside the call, and has its panic here.
func (r *relay) await() {
	if r.handed == nil {
		return
	}
	<-r.handed
	if fault := r.fault; fault != nil {
		r.fault = nil
		panic(fault)
	}
}
