package pipeline_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// reader is a client that takes its time for each piece but the first.
type reader struct {
	takes time.Duration
	heard strings.Builder
}

func (r *reader) emit(e llm.Event) error {
	if r.heard.Len() > 0 {
		<-time.After(r.takes)
	}
	r.heard.Write(e.Raw)
	return nil
}

// Who asks first and reads slowly gets the whole stream, and those who share it are
// not kept waiting.
func TestASlowOwnerHoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		all := replicas(t, 2, keyDefaults, counting(&calls, telling(nil, fourEvents...)))
		owner, _ := underKey(true)
		slow, over := &reader{takes: time.Hour}, make(chan error, 1)
		began := time.Now()
		go func() {
			_, err := all[0].handle(context.Background(), owner, slow.emit)
			over <- err
		}()
		synctest.Wait()
		here, _ := underKey(true)
		there, _ := underKey(true)
		joined, elsewhere := all[0].posts(here), all[1].posts(there)
		for _, done := range []<-chan outcome{joined, elsewhere} {
			wants(t, "who joined", <-done, outcome{Body: wholeStory, Replayed: true, Original: true})
		}
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("they were told the end after %v, want 4s", took)
		}
		if err := <-over; err != nil || slow.heard.String() != wholeStory {
			t.Errorf("the owner's client heard %q, %v", slow.heard.String(), err)
		}
		if waits := owner.Signals.UpstreamTime; waits < time.Hour {
			t.Errorf("%v were waits, want those for the client among them", waits)
		}
	})
}

// A stream that outgrows what is kept goes on at the speed of its client, which
// loses nothing of it.
func TestAStreamPastItsBoundWaitsForItsClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := keyDefaults
		cfg.MaxResult = len(fourEvents[0] + fourEvents[1])
		var took time.Duration
		all := replicas(t, 1, cfg, func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
			began := time.Now()
			defer func() { took = time.Since(began) }()
			return streams(nil, content(fourEvents[0]), content(fourEvents[1]), content(fourEvents[2]), content(fourEvents[3]))(ctx, call, emit)
		})
		owner, _ := underKey(true)
		slow := &reader{takes: time.Minute}
		if _, err := all[0].handle(context.Background(), owner, slow.emit); err != nil || slow.heard.String() != wholeStory {
			t.Errorf("its client heard %q, %v", slow.heard.String(), err)
		}
		if took != 3*time.Minute {
			t.Errorf("the upstream was read for %v, want as long as its client took", took)
		}
		all[0].counted(t, map[string]int{"oversized": 1})
	})
}

// A fault in mid-stream cuts the stream for all who hear it, and frees the key.
func TestAPanicInMidStreamCutsAllWhoHearIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		all := replicas(t, 1, keyDefaults, counting(&calls, func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
			if calls.Load() > 1 {
				return telling(nil, fourEvents...)(ctx, call, emit)
			}
			_, _ = telling(nil, fourEvents[:2]...)(ctx, call, emit)
			panic("a fault of ours")
		}))
		owner, _ := underKey(true)
		over := make(chan any, 1)
		go func() {
			defer func() { over <- recover() }()
			all[0].post(owner)
		}()
		<-time.After(1500 * time.Millisecond)
		joins, _ := underKey(true)
		cut := outcome{Body: "a\n\nbb\n\n", Reason: llm.ReasonPanic, Replayed: true, Original: true}
		wants(t, "who has joined", all[0].post(joins), cut)
		if got := <-over; got != "a fault of ours" {
			t.Errorf("panic %v did not go on", got)
		}
		again, _ := underKey(true)
		wants(t, "again", all[0].post(again), outcome{Body: wholeStory})
	})
}

// A fault in what a client is sent is the call's, wherever it happens.
func TestAPanicBesideTheCallIsTheCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		all := replicas(t, 1, keyDefaults, counting(&calls, telling(nil, fourEvents...)))
		owner, _ := underKey(true)
		defer func() {
			if got := recover(); got != "a fault of ours" {
				t.Errorf("the call panicked with %v", got)
			}
		}()
		heard := 0
		_, _ = all[0].handle(context.Background(), owner, func(llm.Event) error {
			if heard++; heard == 2 {
				panic("a fault of ours")
			}
			return nil
		})
	})
}
