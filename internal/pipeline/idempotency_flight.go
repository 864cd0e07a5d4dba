package pipeline

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Flights are the keys that calls of this process are at. They outlive a reload of
// the configuration. Create it with new.
type Flights struct {
	byName sync.Map // name of the key → *flight
	owed   atomic.Int64
}

// flight is one key that a call of this process is at: it owns the key, or waits
// for the call of another replica. Those that come here meanwhile join it, and
// ask no store.
type flight struct {
	asker KeyAsker

	// confirmed is closed once the key is known to be at work for this very request,
	// or the flight is over.
	confirmed chan struct{}
	once      sync.Once
	here      bool       // the owner is of this process
	stream    *recording // what its stream has said; nil for what is no stream
	origin    origin     // of the stream; read by who has heard an event of it

	awaited string // of a flight that waits: for the end of which call

	over    chan struct{} // closed at the end
	landing landing
}

// origin is what is told in front of a stream: whose it is, and what it has to do
// without.
type origin struct {
	target   llm.Target
	degraded llm.Degradation
}

// landing is what became of a flight.
type landing struct {
	answer *answer
	err    error // how the call failed, for those who joined it
	again  bool  // nothing: the next who comes leads
}

// errAgain sends a call that had joined back to the start.
var errAgain = errors.New("the flight ended without an answer")

// enter returns the flight of a key; first says that the caller leads it, and has
// to end it.
func (f *Flights) enter(a KeyAsker) (_ *flight, first bool) {
	mine := &flight{asker: a, confirmed: make(chan struct{}), over: make(chan struct{})}
	found, there := f.byName.LoadOrStore(a.Name, mine)
	return found.(*flight), !there
}

// confirm says that the key is at work for this request.
func (f *flight) confirm(here bool) {
	f.once.Do(func() {
		f.here = here
		close(f.confirmed)
	})
}

// end gives all that have joined what became of the flight. The key is free for the
// next before any of them can know.
func (f *Flights) end(ended *flight, l landing) {
	ended.land(l)
	f.byName.CompareAndDelete(ended.asker.Name, ended)
	close(ended.over)
	ended.confirm(false)
}

// linger is end, but later calls go on to find the flight, until forget.
func (f *Flights) linger(ended *flight, l landing) {
	ended.land(l)
	close(ended.over)
}

func (f *Flights) forget(ended *flight) { f.byName.CompareAndDelete(ended.asker.Name, ended) }

func (f *flight) land(l landing) {
	f.landing = l
	if f.stream != nil {
		f.stream.close()
	}
}

// abandon ends a flight that nobody has ended.
func (f *Flights) abandon(left *flight) {
	select {
	case <-left.over:
	default:
		f.end(left, landing{again: true})
	}
}

// join waits for the answer of the call that is under way, or says why not.
func (k *keyed) join(f *flight) (*llm.Result, error) {
	if err := k.await(f.confirmed); err != nil {
		return nil, err
	}
	landed := f.landed()
	switch {
	case landed && f.landing.again:
		return nil, errAgain
	case f.asker.Print != k.asker.Print:
		if landed && f.landing.answer == nil { // the key is free again
			return nil, errAgain
		}
		return nil, k.mismatch()
	case landed:
		k.count(KeyResultReplayed)
		return k.share(f)
	case k.Reject:
		return nil, k.conflict()
	case f.here && f.stream != nil:
		return k.follow(f)
	}
	if err := k.await(f.over); err != nil {
		return nil, err
	}
	if f.landing.again {
		return nil, errAgain
	}
	k.count(KeyResultJoined)
	return k.share(f)
}

func (f *flight) landed() bool {
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}

// await waits for a channel to close, as long as the call may wait.
func (k *keyed) await(closed <-chan struct{}) error {
	for {
		select {
		case <-closed:
			return nil
		default:
		}
		if err := k.pause(closed, keyPoll); err != nil {
			return err
		}
	}
}

// share gives what became of a flight to one who has joined it.
func (k *keyed) share(f *flight) (*llm.Result, error) {
	if f.landing.err != nil {
		return nil, f.landing.err
	}
	return k.replay(f.landing.answer)
}
