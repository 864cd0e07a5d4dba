package pipeline

import "sync"

// piece is how many bytes of a stream those who are given it again get at once; a
// client that is slow, but takes each in time, is served to the end.
const piece = 64 << 10

// recording is a stream as it was said, up to a bound, for those who come later.
// Who writes never waits for who reads, and who reads holds nothing of its own.
type recording struct {
	most int

	mu     sync.Mutex
	raw    []byte // only appended to
	ends   []int  // of the events in it
	lost   bool   // it was more than may be kept
	closed bool
	news   chan struct{} // closed when there is more; nil while nobody waits
}

func newRecording(most int) *recording { return &recording{most: most} }

// add writes an event down. Returns false from the first one on that does not fit:
// then the recording is nobody's but that of who still has to hear what is in it.
func (r *recording) add(raw []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.lost:
		return false
	case len(r.raw)+len(raw) > r.most:
		r.lost = true
	default:
		r.raw = append(r.raw, raw...)
		r.ends = append(r.ends, len(r.raw))
	}
	r.tell()
	return !r.lost
}

// drop frees what is in a recording that is lost.
func (r *recording) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw, r.ends = nil, nil
}

// close says that there will be no more.
func (r *recording) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.tell()
}

func (r *recording) tell() {
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
}

// after returns whole events behind the first n, up to a piece of them, and how
// many there are before what follows. Without any it returns a channel that is
// closed when there are, or nil when there will be none; lost says that they are
// not kept any more.
func (r *recording) after(n int) (raw []byte, next int, news <-chan struct{}, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost {
		return nil, n, nil, true
	}
	raw, next, news = r.rest(n)
	return raw, next, news, false
}

// backlog is after for the client of the stream itself, which gets all that fitted.
func (r *recording) backlog(n int) (raw []byte, next int, news <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rest(n)
}

func (r *recording) rest(n int) (raw []byte, next int, news <-chan struct{}) {
	switch {
	case n < len(r.ends):
		next = r.pieceEnd(n)
		return r.raw[r.start(n):r.ends[next-1]], next, nil
	case r.closed, r.lost:
		return nil, n, nil
	case r.news == nil:
		r.news = make(chan struct{})
	}
	return nil, n, r.news
}

func (r *recording) start(n int) int {
	if n == 0 {
		return 0
	}
	return r.ends[n-1]
}

// pieceEnd is behind which event the piece ends that begins with event n.
func (r *recording) pieceEnd(n int) int {
	next := n + 1
	for next < len(r.ends) && r.ends[next]-r.start(n) <= piece {
		next++
	}
	return next
}

// whole returns all that was said, and where it may be divided.
func (r *recording) whole() (raw []byte, pieces []int, whole bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost {
		return nil, nil, false
	}
	for n := 0; n < len(r.ends); {
		n = r.pieceEnd(n)
		pieces = append(pieces, r.ends[n-1])
	}
	return r.raw, pieces, true
}
