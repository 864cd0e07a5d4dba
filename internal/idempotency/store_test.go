package idempotency_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/idempotency"
	"github.com/breakwater-llm/breakwater/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// eachStore runs a test in this process and on a real server.
func eachStore(t *testing.T, test func(*testing.T, cache.Cache)) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		c := cache.NewMemory(cache.MemoryConfig{})
		t.Cleanup(func() { _ = c.Close() })
		test(t, c)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, openRedis(t, redistest.Start(t)))
	})
}

// openRedis gives a call time for a busy machine.
func openRedis(t testing.TB, server *redistest.Server) cache.Cache {
	t.Helper()
	c, err := cache.OpenValkey(server.URL(), cache.ValkeyConfig{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for deadline := time.Now().Add(2 * time.Minute); !c.Available(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server is not reached")
		}
	}
	return c
}

// caller is a call that asks for the key "k" with the body "x".
func caller(token string) idempotency.Asker {
	return idempotency.Asker{Name: "k", Print: "x", Token: token}
}

// other is a call with another body under the same key.
func other(token string) idempotency.Asker {
	return idempotency.Asker{Name: "k", Print: "y", Token: token}
}

type keys struct {
	*idempotency.Store
	t *testing.T
}

func newKeys(t *testing.T, c cache.Cache, lease time.Duration) keys {
	return keys{idempotency.New(idempotency.Config{Lease: lease}, c), t}
}

func (k keys) claims(a idempotency.Asker, awaited string, want idempotency.Claim) {
	k.t.Helper()
	got, err := k.Claim(k.t.Context(), a, awaited, false)
	if err != nil {
		k.t.Fatal(err)
	}
	if want.State == idempotency.Running && got.Left > 0 {
		got.Left = want.Left
	}
	if len(got.Payload) == 0 {
		got.Payload = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		k.t.Errorf("claim of %s awaiting %q (-want +got):\n%s", a.Token, awaited, diff)
	}
}

func (k keys) keeps(a idempotency.Asker, answer string, want bool) {
	k.t.Helper()
	if got, err := k.Keep(k.t.Context(), a, []byte(answer), time.Hour); err != nil || got != want {
		k.t.Errorf("%s keeps: %v, %v; want %v", a.Token, got, err, want)
	}
}

func (k keys) frees(a idempotency.Asker, failure string) {
	k.t.Helper()
	if err := k.Free(k.t.Context(), a, []byte(failure)); err != nil {
		k.t.Error(err)
	}
}

func TestAKeyBelongsToOneCallUntilItsAnswerIsThere(t *testing.T) {
	eachStore(t, func(t *testing.T, c cache.Cache) {
		k := newKeys(t, c, time.Minute)
		k.claims(caller("a"), "", idempotency.Claim{State: idempotency.Owned, Token: "a"})
		k.claims(caller("b"), "", idempotency.Claim{State: idempotency.Running, Token: "a"})
		k.claims(other("c"), "", idempotency.Claim{State: idempotency.Mismatch})
		k.claims(caller("a"), "", idempotency.Claim{State: idempotency.Owned, Token: "a"}) // its answer was lost on the way
		k.keeps(caller("a"), "answer", true)
		k.claims(caller("b"), "a", idempotency.Claim{State: idempotency.Done, Token: "a", Payload: []byte("answer")})
		k.claims(other("c"), "", idempotency.Claim{State: idempotency.Mismatch})
		k.claims(caller("d"), "", idempotency.Claim{State: idempotency.Done, Token: "a", Payload: []byte("answer")})
	})
}

func TestThoseWhoWaitedLearnOfAFailureAndTheKeyIsFree(t *testing.T) {
	eachStore(t, func(t *testing.T, c cache.Cache) {
		k := newKeys(t, c, time.Minute)
		k.claims(caller("a"), "", idempotency.Claim{State: idempotency.Owned, Token: "a"})
		k.frees(caller("a"), "why")
		failed := idempotency.Claim{State: idempotency.Failed, Token: "a", Payload: []byte("why")}
		k.claims(caller("b"), "a", failed)
		k.claims(other("c"), "", idempotency.Claim{State: idempotency.Owned, Token: "c"}) // another request, too
		k.claims(caller("d"), "a", idempotency.Claim{State: idempotency.Failed, Token: "c", Payload: []byte("why")})
		k.claims(caller("d"), "", idempotency.Claim{State: idempotency.Mismatch})
	})
}

func TestAnOwnerIsFencedOffByItsSuccessor(t *testing.T) {
	eachStore(t, func(t *testing.T, c cache.Cache) {
		newKeys(t, c, 20*time.Millisecond).claims(caller("a"), "", idempotency.Claim{State: idempotency.Owned, Token: "a"})
		k := newKeys(t, c, time.Minute) // which outlasts the test
		var state idempotency.State
		for state != idempotency.Taken && state != idempotency.Owned { // it never renews
			got, err := k.Claim(t.Context(), caller("b"), "", false)
			if err != nil {
				t.Fatal(err)
			}
			state = got.State
		}
		k.keeps(caller("a"), "late", false)
		k.frees(caller("a"), "late")
		k.keeps(caller("b"), "answer", true)
		k.keeps(caller("a"), "later", false)
		k.claims(caller("c"), "", idempotency.Claim{State: idempotency.Done, Token: "b", Payload: []byte("answer")})
	})
}

// An owner whose lease ran out, but who has no successor, stores what it has.
func TestALateOwnerWithoutASuccessorStores(t *testing.T) {
	eachStore(t, func(t *testing.T, c cache.Cache) {
		k := newKeys(t, c, time.Millisecond)
		k.claims(caller("a"), "", idempotency.Claim{State: idempotency.Owned, Token: "a"})
		<-time.After(10 * time.Millisecond)
		k.keeps(caller("a"), "answer", true)
		k.claims(caller("b"), "", idempotency.Claim{State: idempotency.Done, Token: "a", Payload: []byte("answer")})
	})
}

func TestTooLargeAnAnswerIsMarked(t *testing.T) {
	eachStore(t, func(t *testing.T, c cache.Cache) {
		k := newKeys(t, c, time.Minute)
		k.claims(caller("a"), "", idempotency.Claim{State: idempotency.Owned, Token: "a"})
		if kept, err := k.Mark(t.Context(), caller("a"), time.Hour); err != nil || !kept {
			t.Fatalf("mark: %v, %v", kept, err)
		}
		k.claims(caller("b"), "a", idempotency.Claim{State: idempotency.Oversized, Token: "a"})
		k.claims(other("c"), "", idempotency.Claim{State: idempotency.Mismatch})
		k.claims(caller("d"), "", idempotency.Claim{State: idempotency.Owned, Token: "d"})
	})
}

func TestAnAnswerOfAnySizeIsReadBack(t *testing.T) {
	eachStore(t, func(t *testing.T, c cache.Cache) {
		k := newKeys(t, c, time.Minute)
		for _, size := range []int{0, 1, 256<<10 - 1, 256 << 10, 256<<10 + 1, 512 << 10, 8 << 20} {
			answer := make([]byte, size)
			_, _ = rand.Read(answer)
			a := caller("a")
			a.Name = fmt.Sprint("size ", size)[5:]
			if kept, err := k.Keep(t.Context(), a, answer, time.Hour); err != nil || !kept {
				t.Fatalf("keep %d bytes: %v, %v", size, kept, err)
			}
			got, err := k.Claim(t.Context(), a, "", false)
			if err != nil || got.State != idempotency.Done || !bytes.Equal(got.Payload, answer) {
				t.Errorf("%d bytes came back as %s of %d, %v", size, got.State, len(got.Payload), err)
			}
		}
	})
}

func TestAnAnswerThatLostAPartIsNone(t *testing.T) {
	eachStore(t, func(t *testing.T, c cache.Cache) {
		k := newKeys(t, c, time.Minute)
		k.keeps(caller("a"), strings.Repeat("x", 1<<20), true)
		if err := c.Delete(t.Context(), "ik:{k}:a:2"); err != nil {
			t.Fatal(err)
		}
		k.claims(caller("b"), "", idempotency.Claim{State: idempotency.Owned, Token: "b"})
		k.keeps(caller("b"), "answer", true)
		k.claims(caller("c"), "", idempotency.Claim{State: idempotency.Done, Token: "b", Payload: []byte("answer")})
	})
}

// Of many who ask at once, over two replicas, one owns the key.
func TestOneOfManyOwnsAKey(t *testing.T) {
	eachStore(t, func(t *testing.T, c cache.Cache) {
		replicas := []keys{newKeys(t, c, time.Minute), newKeys(t, c, time.Minute)}
		var mu sync.Mutex
		states := map[idempotency.State]int{}
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				got, err := replicas[i%2].Claim(t.Context(), caller(fmt.Sprint("call", i)), "", true)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				states[got.State]++
			})
		}
		all.Wait()
		if diff := cmp.Diff(map[idempotency.State]int{idempotency.Owned: 1, idempotency.Running: 99}, states); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
	})
}

func TestAnOwnerThatIsAliveKeepsItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cache.NewMemory(cache.MemoryConfig{})
		defer func() { _ = c.Close() }()
		k := newKeys(t, c, 30*time.Second)
		k.claims(caller("a"), "", idempotency.Claim{State: idempotency.Owned, Token: "a"})
		beat := k.Hold(caller("a"))
		<-time.After(time.Hour)
		k.claims(caller("b"), "", idempotency.Claim{State: idempotency.Running, Token: "a"})
		if err := c.Delete(t.Context(), "ik:{k}"); err != nil { // a store that forgets is told again
			t.Fatal(err)
		}
		<-time.After(11 * time.Second)
		k.claims(caller("b"), "", idempotency.Claim{State: idempotency.Running, Token: "a"})
		beat.Stop()
		beat.Stop()
		<-time.After(30 * time.Second)
		k.claims(caller("b"), "", idempotency.Claim{State: idempotency.Taken, Token: "b"})
	})
}

// A replica that waits is told at once of what the owner's has stored or freed.
func TestThoseWhoWaitElsewhereAreTold(t *testing.T) {
	eachStore(t, func(t *testing.T, c cache.Cache) {
		k, elsewhere := newKeys(t, c, time.Minute), newKeys(t, c, time.Minute)
		elsewhere.Start()
		defer func() {
			if err := elsewhere.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		heard, leave := elsewhere.Heard("k")
		defer leave()
		for i := range 60 { // the first words may come before the watch begins
			owner, waiter := caller(fmt.Sprint("owner", i)), caller(fmt.Sprint("waiter", i))
			k.claims(owner, "", idempotency.Claim{State: idempotency.Owned, Token: owner.Token})
			if _, err := elsewhere.Claim(t.Context(), waiter, "", true); err != nil {
				t.Fatal(err)
			}
			k.frees(owner, "")
			select {
			case <-heard:
				return
			case <-time.After(time.Second):
			}
		}
		t.Error("nothing was heard")
	})
}

func TestNothingStaysForEver(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	k := newKeys(t, openRedis(t, server), time.Minute)
	for i, end := range []func(idempotency.Asker){
		func(idempotency.Asker) {},
		func(a idempotency.Asker) { k.keeps(a, strings.Repeat("x", 1<<20), true) },
		func(a idempotency.Asker) { k.frees(a, "why") },
		func(a idempotency.Asker) { _, _ = k.Mark(t.Context(), a, time.Hour) },
	} {
		a := idempotency.Asker{Name: fmt.Sprint("key", i), Print: "x", Token: "a"}
		k.claims(a, "", idempotency.Claim{State: idempotency.Owned, Token: "a"})
		end(a)
	}
	all := server.Keys()
	if len(all) != 8 {
		t.Errorf("keys: %q, want four records and four chunks", all)
	}
	for _, key := range all {
		if server.TTL(key) <= 0 {
			t.Errorf("%s has no end", key)
		}
	}
}
