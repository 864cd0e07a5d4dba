package telemetry

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
)

// batchSize is how many rows one statement writes at most.
const batchSize = 1000

// queue holds rows until they are written. Its bound covers those that a writer
// has taken but not settled yet, so it bounds memory while the database is
// away. Writers of rows meet on one atomic counter and one of several locks.
type queue[T any] struct {
	limit    int64
	complete int64 // how many rows are worth a wake
	wake     chan<- struct{}

	held   atomic.Int64
	closed atomic.Bool
	shards []shard[T]
}

type shard[T any] struct {
	mu    sync.Mutex
	items []T
	_     [32]byte // keeps neighbours off this one's cache line
}

func newQueue[T any](limit int, wake chan<- struct{}) *queue[T] {
	return &queue[T]{
		limit:    int64(limit),
		complete: int64(max(1, min(batchSize, limit/2))),
		wake:     wake,
		shards:   make([]shard[T], runtime.GOMAXPROCS(0)),
	}
}

// put adds a row, or reports false when there is no room. It never waits.
func (q *queue[T]) put(item T) bool {
	n := q.held.Add(1)
	if n > q.limit || q.closed.Load() {
		q.held.Add(-1)
		return false
	}
	s := &q.shards[rand.IntN(len(q.shards))]
	s.mu.Lock()
	s.items = append(s.items, item)
	s.mu.Unlock()

	if n%q.complete == 0 {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// take removes up to batchSize rows. They count as held until settle.
func (q *queue[T]) take() []T {
	var rows []T
	for i := range q.shards {
		rows = q.shards[i].take(rows)
	}
	return rows
}

// take moves rows of the shard to the end of a batch until that is complete.
func (s *shard[T]) take(dst []T) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.items), batchSize-len(dst))
	dst = append(dst, s.items[:n]...)
	rest := copy(s.items, s.items[n:])
	clear(s.items[rest:])
	s.items = s.items[:rest]
	return dst
}

// settle makes room for n rows that were taken.
func (q *queue[T]) settle(n int) { q.held.Add(int64(-n)) }

// close refuses every further row.
func (q *queue[T]) close() { q.closed.Store(true) }

func (q *queue[T]) len() int { return int(q.held.Load()) }
