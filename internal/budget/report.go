package budget

import "time"

// reportEvery is how often at most it is logged that something went wrong that
// goes on going wrong.
const reportEvery = time.Minute

// tellCounters is what a replica does for counters that were lost.
const tellCounters = "tell what is known of lost counters"

// report logs what could not be done for another reason than that the store is
// away, which is logged where it is found out. Nobody waits for what is reported,
// and it is tried again, or a reservation stays longer than it has to; but a store
// that refuses it will go on to do so.
func (l *Ledger) report(what string, err error) {
	if err == nil || lost(err) {
		return
	}
	now := time.Now().UnixMilli()
	if until := l.silent.Load(); now < until || !l.silent.CompareAndSwap(until, now+reportEvery.Milliseconds()) {
		return
	}
	l.log.Error("the ledger's counters cannot be used in full", "could_not", what, "error", err)
}
