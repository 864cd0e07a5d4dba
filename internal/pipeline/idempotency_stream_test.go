package pipeline_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// telling streams one event a second.
func telling(end *llm.Failure, events ...string) behaviour {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		result := &llm.Result{Target: alpha, Status: 200, Streamed: true}
		for _, raw := range events {
			if err := spend(ctx, call, time.Second); err != nil {
				return result, err
			}
			if err := emit(content(raw)); err != nil {
				return result, err
			}
		}
		if end != nil {
			failure := *end
			return result, &failure
		}
		return result, nil
	}
}

var (
	fourEvents = []string{"a\n\n", "bb\n\n", "ccc\n\n", "done\n\n"}
	wholeStory = strings.Join(fourEvents, "")
)

// A second request joins a stream at any point of its life, and is told all of it.
func TestAStreamIsJoinedAtEveryPointOfItsLife(t *testing.T) {
	t.Parallel()
	for after := range 7 {
		for where := range 2 {
			t.Run(fmt.Sprintf("after %d.5 s, replica %d", after, where), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var calls atomic.Int32
					all := replicas(t, 2, keyDefaults, counting(&calls, telling(nil, fourEvents...)))
					owner, _ := underKey(true)
					began := time.Now()
					first := all[0].posts(owner)
					<-time.After(time.Duration(after)*time.Second + time.Second/2)
					call, _ := underKey(true)
					wants(t, "the second", all[where].post(call), outcome{Body: wholeStory, Replayed: true, Original: true})
					if took := time.Since(began); after < 4 && took != 4*time.Second {
						t.Errorf("it was told the end after %v, want as soon as it was there", took)
					}
					if !call.Signals.Committed || call.Signals.FirstContent.IsZero() {
						t.Error("the stream is not marked as committed")
					}
					wants(t, "the first", <-first, outcome{Body: wholeStory})
					if calls.Load() != 1 {
						t.Errorf("%d calls, want 1", calls.Load())
					}
				})
			})
		}
	}
}

// Who joins a stream is told in front of it whose it is, and that it is a makeshift.
func TestAStreamThatIsJoinedSaysWhoseItIsAndWhatItLacks(t *testing.T) {
	t.Parallel()
	for degraded, want := range map[llm.Degradation]llm.Target{
		"":                  alpha,
		llm.DegradedContext: alpha,
		llm.DegradedStale:   beta,
		llm.DegradedMessage: {},
	} {
		t.Run("degraded "+string(degraded), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				all := replicas(t, 1, keyDefaults, func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
					call.Signals.Open(alpha, time.Now())
					call.Signals.Degraded = degraded
					if degraded == llm.DegradedStale {
						call.Signals.CacheResult, call.Signals.KeptFrom = llm.CacheStale, beta
					}
					return telling(nil, fourEvents...)(ctx, call, emit)
				})
				owner, _ := underKey(true)
				first := all[0].posts(owner)
				<-time.After(1500 * time.Millisecond)
				call, _ := underKey(true)
				told := false
				if _, err := all[0].handle(context.Background(), call, func(llm.Event) error {
					told = told || call.Signals.Degraded == degraded && call.Signals.InHand() == want
					if !told {
						t.Errorf("degraded %q, of %v; want %q, of %v", call.Signals.Degraded, call.Signals.InHand(), degraded, want)
					}
					return nil
				}); err != nil || !told {
					t.Errorf("told %v, %v", told, err)
				}
				<-first
			})
		})
	}
}

func TestAStreamThatFailsFailsForAllWhoHearIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		all := replicas(t, 2, keyDefaults, counting(&calls, telling(&truncated, fourEvents[:2]...)))
		owner, _ := underKey(true)
		first := all[0].posts(owner)
		<-time.After(1500 * time.Millisecond)
		here, _ := underKey(true)
		there, _ := underKey(true)
		joined, elsewhere := all[0].posts(here), all[1].posts(there)
		wants(t, "the first", <-first, outcome{Body: "a\n\nbb\n\n", Reason: llm.ReasonTruncated})
		wants(t, "who has joined", <-joined, outcome{Body: "a\n\nbb\n\n", Reason: llm.ReasonTruncated, Replayed: true, Original: true})
		wants(t, "who has heard nothing", <-elsewhere, outcome{Reason: llm.ReasonTruncated})
		again, _ := underKey(true)
		wants(t, "it is not stored", all[1].post(again), outcome{Body: "a\n\nbb\n\n", Reason: llm.ReasonTruncated})
	})
}

// Past the bound nothing is kept: who has joined is told so, who owns goes on.
func TestAStreamThatGrowsTooLarge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		cfg := keyDefaults
		cfg.MaxResult = len(wholeStory) - 1
		all := replicas(t, 2, cfg, counting(&calls, telling(nil, fourEvents...)))
		owner, _ := underKey(true)
		first := all[0].posts(owner)
		<-time.After(1500 * time.Millisecond)
		early, _ := underKey(true)
		there, _ := underKey(true)
		joined, elsewhere := all[0].posts(early), all[1].posts(there)
		cut := outcome{Body: "a\n\nbb\n\nccc\n\n", Reason: llm.ReasonAnswerTooLarge, Replayed: true, Original: true}
		wants(t, "who has joined", <-joined, cut)
		wants(t, "the first", <-first, outcome{Body: wholeStory})
		wants(t, "who waited elsewhere", <-elsewhere, outcome{Reason: llm.ReasonAnswerTooLarge})
		all[0].counted(t, map[string]int{"conflict": 1, "oversized": 1})
		other, _ := underKey(true)
		other.Body = []byte("another body")
		wants(t, "another body", all[1].post(other), outcome{Reason: llm.ReasonKeyReused})
		again, _ := underKey(true)
		wants(t, "a retry is a new call", all[1].post(again), outcome{Body: wholeStory})
	})
}

// Who joins and takes nothing holds up nobody.
func TestASlowListenerNeverSlowsTheOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		all := replicas(t, 1, keyDefaults, counting(&calls, telling(nil, fourEvents...)))
		owner, _ := underKey(true)
		began := time.Now()
		first := all[0].posts(owner)
		synctest.Wait()
		call, _ := underKey(true)
		var heard strings.Builder
		slow := make(chan error, 1)
		go func() {
			_, err := all[0].handle(context.Background(), call, func(e llm.Event) error {
				<-time.After(time.Hour)
				heard.Write(e.Raw)
				return nil
			})
			slow <- err
		}()
		wants(t, "the first", <-first, outcome{Body: wholeStory})
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("the owner took %v, want 4s", took)
		}
		if err := <-slow; err != nil || heard.String() != wholeStory {
			t.Errorf("the slow one heard %q, %v", heard.String(), err)
		}
	})
}

// Who has joined a stream and leaves, leaves; its own limit ends only its wait.
func TestAListenerLeaves(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		after time.Duration
		why   error
		want  outcome
	}{
		"before the first event":  {time.Second / 2, llm.ErrClientLeft, outcome{Reason: llm.ReasonClientLeft}},
		"by its limit":            {time.Second / 2, llm.ErrCallerTimeout, conflicted},
		"in mid-stream":           {2500 * time.Millisecond, llm.ErrClientLeft, outcome{Body: "a\n\nbb\n\n", Reason: llm.ReasonClientLeft, Replayed: true, Original: true}},
		"its limit in mid-stream": {2500 * time.Millisecond, llm.ErrCallerTimeout, outcome{Body: wholeStory, Replayed: true, Original: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				all := replicas(t, 1, keyDefaults, counting(&calls, telling(nil, fourEvents...)))
				owner, _ := underKey(true)
				first := all[0].posts(owner)
				synctest.Wait()
				call, leave := underKey(true)
				time.AfterFunc(tc.after, func() { leave(tc.why) })
				wants(t, "the second", all[0].post(call), tc.want)
				wants(t, "the first", <-first, outcome{Body: wholeStory})
			})
		})
	}
}

// A long stream is given again in pieces that end where events do.
func TestALongStreamIsGivenAgainInPieces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		event := strings.Repeat("x", 998) + "\n\n"
		var events []llm.Event
		for range 500 {
			events = append(events, content(event))
		}
		all := replicas(t, 2, keyDefaults, streams(nil, events...))
		owner, _ := underKey(true)
		all[0].post(owner)
		call, _ := underKey(true)
		c := &client{}
		if _, err := all[1].handle(context.Background(), call, c.emit); err != nil {
			t.Fatal(err)
		}
		for i, piece := range c.events {
			if len(piece) > 64<<10 || len(piece)%len(event) != 0 {
				t.Errorf("piece %d of %d has %d bytes, want whole events, 64 KiB at most", i, len(c.events), len(piece))
			}
		}
		if got := strings.Join(c.events, ""); got != strings.Repeat(event, 500) || len(c.events) < 8 {
			t.Errorf("%d bytes came back in %d pieces", len(got), len(c.events))
		}
	})
}
