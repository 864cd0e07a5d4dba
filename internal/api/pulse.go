package api

import (
	"net/http"
	"time"
)

// ping is a comment and nothing else. A blank line after it would be an event
// to client libraries that dispatch one for every blank line (SSE-05); without
// one it is a line before the next event, which all of them skip.
const ping = ": ping\n"

// startPulse has the answer looked at after a time, and then as often as it
// needs.
func (a *answer) startPulse(after time.Duration) {
	a.clocks.writing.Lock()
	defer a.clocks.writing.Unlock()
	a.beatIn(after)
}

// beatIn sets the pulse. The caller holds clocks.writing.
func (a *answer) beatIn(after time.Duration) {
	if a.pulse == nil {
		a.pulse = time.AfterFunc(after, a.beat)
		return
	}
	a.pulse.Reset(after)
}

// keepAlive has a stream that begins here watched for silence. The caller holds
// clocks.writing.
func (a *answer) keepAlive() {
	if every := a.clocks.limits.StreamKeepalive; every > 0 {
		a.beatIn(every)
	}
}

// beat runs while the call goes on elsewhere. It writes between two events only,
// since each of them is written as a whole under the same lock, and never more
// than a comment: an upstream's clocks know nothing of it.
func (a *answer) beat() {
	a.clocks.writing.Lock()
	defer a.clocks.writing.Unlock()
	switch {
	case a.settled || a.lost != nil:
	case !a.begun:
		a.lose(a.beginEarly())
	default:
		a.lose(a.breakSilence())
	}
}

// beginEarly sends the headers of a stream whose target is not known yet, so
// that nothing between here and the client takes the silence for a fault.
func (a *answer) beginEarly() error {
	a.w.Header().Del(headerAttempts)
	a.begin()
	a.beginWrite()
	a.w.WriteHeader(http.StatusOK)
	return a.write(nil, true)
}

// breakSilence sends a ping unless something was sent meanwhile.
func (a *answer) breakSilence() error {
	every := a.clocks.limits.StreamKeepalive
	if left := every - time.Since(a.wrote); left > 0 {
		a.beatIn(left)
		return nil
	}
	err := a.write([]byte(ping), true)
	a.beatIn(every)
	return err
}

// settle ends the pulse: from here on nothing is sent but by the goroutine that
// runs the call. It may be called twice.
func (a *answer) settle() {
	a.clocks.writing.Lock()
	defer a.clocks.writing.Unlock()
	a.settled = true
	if a.pulse != nil {
		a.pulse.Stop()
	}
}
