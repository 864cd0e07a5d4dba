package telemetry

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Whatever was accepted comes out once, also when the queue closes while others
// are still putting.
func TestWhatTheQueueAcceptsComesOutOnce(t *testing.T) {
	t.Parallel()
	const producers, each = 8, 5000
	q := newQueue[int](2000, make(chan struct{}, 1))
	var accepted atomic.Int64
	var putting sync.WaitGroup
	for p := range producers {
		putting.Go(func() {
			for i := range each {
				for !q.put(p*each + i) {
					if q.closed.Load() {
						return
					}
					runtime.Gosched()
				}
				accepted.Add(1)
			}
		})
	}

	seen := map[int]int{}
	drain := func() {
		for rows := q.take(); len(rows) > 0; rows = q.take() {
			if n := q.len(); n > 2000+producers {
				t.Errorf("%d rows are held, the limit is 2000", n)
			}
			for _, row := range rows {
				seen[row]++
			}
			q.settle(len(rows))
		}
	}
	for accepted.Load() < producers*each/4 {
		drain()
	}
	q.close()
	putting.Wait()
	drain()

	if got, want := int64(len(seen)), accepted.Load(); got != want {
		t.Errorf("%d rows came out, %d were accepted", got, want)
	}
	for row, n := range seen {
		if n != 1 {
			t.Errorf("row %d came out %d times", row, n)
		}
	}
	if got := q.len(); got != 0 {
		t.Errorf("%d rows count as held in an empty queue", got)
	}
	if q.put(-1) {
		t.Error("a closed queue took a row")
	}
}

func TestTakenRowsKeepTheirPlaceUntilTheyAreSettled(t *testing.T) {
	t.Parallel()
	q := newQueue[int](2, make(chan struct{}, 1))
	q.put(1)
	q.put(2)
	if got := len(q.take()); got != 2 {
		t.Fatalf("took %d rows, want 2", got)
	}
	if q.put(3) {
		t.Error("a row was taken in while two are being written and two is the limit")
	}
	q.settle(2)
	if !q.put(3) {
		t.Error("no room after the rows were written")
	}
}
