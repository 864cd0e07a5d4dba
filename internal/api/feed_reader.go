package api

import (
	"encoding/json"

	"github.com/breakwater-llm/breakwater/internal/runs"
	"github.com/breakwater-llm/breakwater/internal/sse"
)

// The reasons of a gap.
const (
	gapNotKept   = "not_kept"   // the reader was slow or away for too long
	gapDropped   = "dropped"    // the circuits moved faster than anybody could be told
	gapRestarted = "restarted"  // it goes on from an event of another life of the gateway, or of another one
	gapUnknownID = "unknown_id" // it goes on from what was never an event's id
)

// gap says that a reader is not told everything.
type gap struct {
	Reason string  `json:"reason"`
	Missed *uint64 `json:"missed"` // events of all circuits; nil = not known
}

// appendGap has no id, so that a reader who is cut off right then is told again.
func appendGap(dst []byte, reason string, missed *uint64) []byte {
	data, err := json.Marshal(gap{reason, missed})
	if err != nil {
		return dst // a word and a number always can be
	}
	return sse.AppendData(append(dst, "event: gap\n"...), data)
}

// reader follows a feed.
type reader struct {
	provider, key string        // what it wants to hear of; empty = everything
	woken         chan struct{} // has room for one

	// Guarded by the feed.
	last   uint64 // the number of the event that it was told last
	missed string // the reason of a gap that it is told first, or empty
}

// join adds a reader that goes on behind the event of an id, or that hears of
// what happens from now on when the id is empty. Returns errCrowded or
// errFeedStopped.
func (f *Feed) join(r *reader, lastEventID string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.stopped:
		return errFeedStopped
	case len(f.readers) >= f.cfg.Readers:
		return errCrowded
	}
	r.woken = make(chan struct{}, 1)
	r.last = f.last
	if lastEventID != "" {
		r.last, r.missed = f.resume(lastEventID)
	}
	f.readers[r] = struct{}{}
	return nil
}

// resume finds the event behind which a reader goes on. Where that cannot be
// told, everything that is kept follows, and why it may not be all.
func (f *Feed) resume(lastEventID string) (last uint64, missed string) {
	last = f.last
	if len(f.kept) > 0 {
		last = f.at(0).seq - 1
	}
	position, err := runs.ParseEventCursor(lastEventID)
	switch {
	case err != nil:
		return last, gapUnknownID
	case position.Node != f.cfg.Writer.Node || position.Boot != f.cfg.Writer.Boot:
		return last, gapRestarted
	case uint64(position.Seq) > f.last:
		return last, gapUnknownID
	}
	return uint64(position.Seq), ""
}

// atOnce is how many events a reader is handed at most in one go.
const atOnce = 64

// read appends what a reader has not been told to dst, and reports whether there
// is more.
func (f *Feed) read(r *reader, dst []byte) (out []byte, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.missed != "" {
		dst = appendGap(dst, r.missed, nil)
		r.missed = ""
	}
	begin := f.behind(r.last)
	end := min(begin+atOnce, len(f.kept))
	for i := begin; i < end; i++ {
		dst = f.tell(dst, r, i)
	}
	return dst, end < len(f.kept)
}

// tell appends a kept event, if the reader wants it, behind the gap before it,
// if there is one.
func (f *Feed) tell(dst []byte, r *reader, i int) []byte {
	event := f.at(i)
	if missed := event.seq - r.last - 1; missed > 0 {
		reason := gapDropped
		if i == 0 && len(f.kept) == f.cfg.Kept {
			reason = gapNotKept
		}
		dst = appendGap(dst, reason, &missed)
	}
	r.last = event.seq
	if r.provider != "" && r.provider != event.provider || r.key != "" && r.key != event.key {
		return dst
	}
	return append(dst, event.frame...)
}
