package breaker

import (
	"sync"
	"time"
)

// Event is one transition of one circuit. One from Shadow to Shadow is an opening
// that did not happen.
type Event struct {
	Seq        uint64 // counts the events of a registry from 1; a gap is a dropped event
	Key        string
	From, To   State
	Reason     string
	Cause      string        // of the failure that opened the circuit; empty when it closes
	Counts     Counts        // of the state that was left
	Exceeded   []string      // the limits of rates that were passed at once, as reasons; that of failures first (R21)
	OpenFor    time.Duration // how long it opened for; 0 when it did not
	At         time.Time     // UTC
	Generation uint64        // the new one
	Actor      string        // who made it
	Note       string        // why, in the words of an actor who is a person
}

// ActorBreaker is the actor of the transitions that a circuit makes by itself.
const ActorBreaker = "breaker"

// Counts are the outcomes that the window of a closed circuit shows, or the
// verdicts of a half-open one.
type Counts struct {
	Calls               uint64 `json:"calls"` // successes and failures; neutral ones are no sample
	Failures            uint64 `json:"failures"`
	Slow                uint64 `json:"slow"` // of a closed circuit that opens by slow calls
	ConsecutiveFailures int    `json:"consecutive_failures"`
}

// queued is how many events wait for a slow hook before new ones are dropped.
const queued = 4096

// outbox keeps events in order between the critical section that makes them
// and the hook that is told outside of it (R43).
type outbox struct {
	filled chan struct{}

	mu      sync.Mutex
	seq     uint64
	ring    []Event
	first   int
	length  int
	dropped uint64
}

func newOutbox(size int) *outbox {
	return &outbox{filled: make(chan struct{}, 1), ring: make([]Event, size)}
}

// add numbers an event and keeps it, or counts it as dropped.
func (o *outbox) add(e Event) {
	o.mu.Lock()
	o.seq++
	e.Seq = o.seq
	if o.length == len(o.ring) {
		o.dropped++
	} else {
		o.ring[(o.first+o.length)%len(o.ring)] = e
		o.length++
	}
	o.mu.Unlock()
	signal(o.filled)
}

func (o *outbox) take() (Event, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.length == 0 {
		return Event{}, false
	}
	e := o.ring[o.first]
	o.ring[o.first] = Event{}
	o.first = (o.first + 1) % len(o.ring)
	o.length--
	return e, true
}

// deliver hands events to the hook until stop is closed and none is left.
func (o *outbox) deliver(hook func(Event), stop <-chan struct{}) {
	for running := true; running; {
		select {
		case <-o.filled:
		case <-stop:
			running = false
		}
		for e, ok := o.take(); ok; e, ok = o.take() {
			hook(e)
		}
	}
}

func (o *outbox) lost() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped
}

// signal wakes the reader of a channel with room for one, who will look for
// everything there is to do.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
