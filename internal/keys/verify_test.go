package keys

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/credential"
)

func TestAKeyIsLookedUpOncePerCacheTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shelf := newShelf()
		k := followed(t, shelf)
		key := shelf.put("shop", -1)
		for range 61 {
			want(t, "while it is known", verified(t, k, key), nil)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if got := shelf.lookUps.Load(); got != 2 {
			t.Errorf("got %d look-ups in 61 s, want 2", got)
		}
	})
}

func TestOfOneKeyAtOnceOneIsLookedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shelf := newShelf()
		k := followed(t, shelf)
		key, release := shelf.put("shop", -1), shelf.hold()
		var done sync.WaitGroup
		for range 200 { // far more than a client may guess
			done.Go(func() { want(t, "at once", verified(t, k, key), nil) })
		}
		synctest.Wait()
		release()
		done.Wait()
		if got := shelf.lookUps.Load(); got != 1 {
			t.Errorf("got %d look-ups, want 1", got)
		}
	})
}

// Who leaves does not take the answer from those who stay.
func TestACallerThatLeavesEndsNobodysLookUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shelf := newShelf()
		k := followed(t, shelf)
		key, release := shelf.put("shop", -1), shelf.hold()
		leaving, leave := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() {
			_, err := k.Verify(leaving, key.Whole(), somebody)
			want(t, "of who left", err, context.Canceled)
		})
		synctest.Wait()
		done.Go(func() { want(t, "of who stayed", verified(t, k, key), nil) })
		synctest.Wait()
		leave()
		synctest.Wait()
		release()
		done.Wait()
		if got := shelf.lookUps.Load(); got != 1 {
			t.Errorf("got %d look-ups, want 1", got)
		}
	})
}

func TestWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shelf := newShelf()
		k := followed(t, shelf)
		known, unknown, short := shelf.put("known", -1), shelf.put("unknown", -1), shelf.put("short", 2*time.Hour)
		forged := texts.Mint()
		forged.Prefix = known.Prefix
		want(t, "known", verified(t, k, known), nil)
		want(t, "short", verified(t, k, short), nil)
		shelf.away(errAway)
		for range 200 {
			want(t, "unknown", verified(t, k, unknown), ErrUnchecked) // never 401, and no guess either
		}
		time.Sleep(90 * time.Minute)
		want(t, "known after 90 min", verified(t, k, known), nil)
		want(t, "short after 90 min", verified(t, k, short), nil)
		want(t, "with another secret", verified(t, k, forged), ErrUnchecked) // as one that was never seen
		time.Sleep(time.Hour)
		want(t, "known after 150 min", verified(t, k, known), nil)
		want(t, "past its own end", verified(t, k, short), ErrInvalid)
		time.Sleep(22 * time.Hour)
		want(t, "past outage_ttl", verified(t, k, known), ErrUnchecked)
		shelf.away(nil)
		want(t, "when it is back", verified(t, k, known), nil)
		want(t, "unknown then", verified(t, k, unknown), nil)
	})
}

// A database that takes questions and answers none keeps nobody waiting whose key
// is known.
func TestAHangingDatabaseKeepsNoKnownKeyWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shelf := newShelf()
		k := followed(t, shelf)
		known, unknown := shelf.put("known", -1), shelf.put("unknown", -1)
		want(t, "at first", verified(t, k, known), nil)
		release := shelf.hold()
		defer release()
		time.Sleep(time.Hour)
		begun := time.Now()
		for range 100 {
			want(t, "while it hangs", verified(t, k, known), nil)
		}
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("a known key waited for %s", waited)
		}
		want(t, "unknown while it hangs", verified(t, k, unknown), ErrUnchecked)
		if waited := time.Since(begun); waited > lookUpTimeout {
			t.Errorf("an unknown key waited for %s, want %s at most", waited, lookUpTimeout)
		}
	})
}

func TestARevocationIsHeardOfWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shelf := newShelf()
		one, other := followed(t, shelf), followed(t, shelf)
		key := shelf.put("shop", -1)
		want(t, "at first, on one", verified(t, one, key), nil)
		want(t, "at first, on the other", verified(t, other, key), nil)
		time.Sleep(time.Hour)
		shelf.revoke(key.Prefix)
		time.Sleep(time.Second)
		want(t, "a second later, on one", verified(t, one, key), ErrInvalid)
		want(t, "a second later, on the other", verified(t, other, key), ErrInvalid)
		shelf.away(errAway)
		time.Sleep(time.Hour)
		want(t, "when the database is away", verified(t, one, key), ErrInvalid)
	})
}

// What was revoked during an outage is heard of when it is over, however long it
// was.
func TestRevocationsOfAnOutageAreHeardOfAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shelf := newShelf()
		k := followed(t, shelf)
		key := shelf.put("shop", -1)
		want(t, "at first", verified(t, k, key), nil)
		shelf.away(errAway)
		time.Sleep(time.Minute)
		shelf.revoke(key.Prefix) // on the side of the database
		time.Sleep(5 * time.Hour)
		want(t, "while nobody can know", verified(t, k, key), nil)
		shelf.away(nil)
		time.Sleep(time.Second)
		want(t, "a second after it", verified(t, k, key), ErrInvalid)
	})
}

// A look-up that was under way when a key was revoked brings it not back.
func TestARevocationWinsOverALookUpUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shelf := newShelf()
		k := followed(t, shelf)
		key, release := shelf.put("shop", -1), shelf.hold()
		var done sync.WaitGroup
		done.Go(func() { want(t, "by the look-up", verified(t, k, key), ErrInvalid) })
		synctest.Wait()
		shelf.revoke(key.Prefix)
		time.Sleep(time.Second) // it is heard of
		release()
		done.Wait()
		want(t, "afterwards", verified(t, k, key), ErrInvalid)
	})
}

func TestAKeyExpiresByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shelf := newShelf()
		k := followed(t, shelf)
		key := shelf.put("shop", 30*time.Second)
		want(t, "at first", verified(t, k, key), nil)
		time.Sleep(30*time.Second - time.Millisecond)
		want(t, "just before its end", verified(t, k, key), nil)
		time.Sleep(time.Millisecond)
		want(t, "at its end", verified(t, k, key), ErrInvalid)
	})
}

// Random keys take neither memory nor the database beyond bounds, and keep nobody
// out whose key is good.
func TestGuessingIsThrottled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shelf := newShelf()
		k := followed(t, shelf)
		known, late := shelf.put("known", -1), shelf.put("late", -1)
		want(t, "known", verified(t, k, known), nil)
		before := shelf.lookUps.Load()

		var done sync.WaitGroup
		var mu sync.Mutex
		told := map[string]int{}
		for range 1000 {
			done.Go(func() {
				var throttled *ThrottledError
				err := verified(t, k, texts.Mint())
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.As(err, &throttled):
					told["throttled"]++
					if throttled.RetryAfter <= 0 || throttled.RetryAfter > guessEvery {
						t.Errorf("retry after %s, want up to %s", throttled.RetryAfter, guessEvery)
					}
				case errors.Is(err, ErrInvalid):
					told["invalid"]++
				default:
					t.Errorf("a guess is told %v", err)
				}
			})
		}
		done.Wait()
		if got := shelf.lookUps.Load() - before; got != guessBurst || told["invalid"] != guessBurst || told["throttled"] != 1000-guessBurst {
			t.Errorf("got %d look-ups and the answers %v, want %d", got, told, guessBurst)
		}
		want(t, "a known key of the same client", verified(t, k, known), nil)
		if _, err := k.Verify(t.Context(), late.Whole(), netip.MustParseAddr("198.51.100.9")); err != nil {
			t.Errorf("a new key of another client: %v", err)
		}
		time.Sleep(10 * time.Second)
		before = shelf.lookUps.Load()
		for range 100 {
			_ = verified(t, k, texts.Mint())
		}
		if got := shelf.lookUps.Load() - before; got != 10 {
			t.Errorf("got %d look-ups after 10 s, want 10", got)
		}
	})
}

// Whose key is good gets in at once while others guess from the same address, also
// with a key that was never used here.
func TestGuessersKeepNoGoodKeyOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const half, seconds = 25, 5
		shelf := newShelf()
		var good []credential.Text
		put := func() {
			for range half {
				good = append(good, shelf.put("shop", -1))
			}
		}
		put()
		k := followed(t, shelf)
		var guessing sync.WaitGroup
		guess := func(seconds int) {
			for range seconds * 1000 {
				guessing.Go(func() { _ = verified(t, k, texts.Mint()) })
				time.Sleep(time.Millisecond)
			}
		}
		guess(seconds - 1)
		put() // while it runs
		guess(1)
		for _, key := range good {
			want(t, "a key that was never seen", verified(t, k, key), nil)
		}
		guessing.Wait()
		if got, most := shelf.lookUps.Load(), int64(guessBurst+seconds+len(good)); got > most {
			t.Errorf("got %d look-ups, want %d at most", got, most)
		}
	})
}

// Nobody learns which prefixes there are: a wrong secret is told what a prefix that
// there is not is told, and costs as many look-ups.
func TestAWrongSecretIsTakenForAWrongPrefix(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told := func(shelf *shelf, k *Keys, prefix string) (said []string, lookUps int64) {
			synctest.Wait()
			before := shelf.lookUps.Load()
			guess := func() {
				guess := texts.Mint()
				guess.Prefix = prefix
				for range 2 {
					said = append(said, fmt.Sprint(verified(t, k, guess)))
				}
			}
			for range guessBurst + 5 {
				guess()
			}
			shelf.away(errAway)
			time.Sleep(10 * time.Second)
			guess()
			return said, shelf.lookUps.Load() - before
		}
		nobodys := newShelf()
		want, wantLookUps := told(nobodys, followed(t, nobodys), texts.Mint().Prefix)
		for name, seen := range map[string]bool{"never seen": false, "known by heart": true} {
			shelf := newShelf()
			k, key := followed(t, shelf), shelf.put("shop", -1)
			if seen {
				if err := verified(t, k, key); err != nil {
					t.Fatal(err)
				}
			}
			got, lookUps := told(shelf, k, key.Prefix)
			if diff := cmp.Diff(want, got); diff != "" || lookUps != wantLookUps {
				t.Errorf("%s: %d look-ups, want %d; told (-no such prefix +wrong secret):\n%s", name, lookUps, wantLookUps, diff)
			}
		}
	})
}

// What is kept of the keys there are has a bound, and ends with them.
func TestWhatIsKeptOfKeysHasABound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kept := newShelf()
		k := followed(t, kept)
		revoked, gone := kept.put("revoked", -1), kept.put("gone", -1)
		time.Sleep(time.Minute)
		kept.revoke(revoked.Prefix)
		time.Sleep(time.Second)
		if k.issued.holds(revoked) || !k.issued.holds(gone) {
			t.Error("a second after its revocation a key is taken for one, or one that is there is not")
		}
		kept.set(func(s *shelf) { delete(s.live, gone.Prefix) })
		time.Sleep(readEvery)
		if k.issued.holds(gone) {
			t.Error("a key that is not there any more is taken for one an hour later")
		}
		for range maxIssued + 10 {
			k.issued.add(proof{texts.Mint().Prefix, gone.Hash()})
		}
		if got := len(k.issued.hashes); got != maxIssued {
			t.Errorf("%d keys are kept, want %d", got, maxIssued)
		}
	})
}

// The same wrong key again and again is one question, and is told so.
func TestAWrongKeyIsRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shelf := newShelf()
		k := followed(t, shelf)
		wrong := texts.Mint()
		for range 100 {
			want(t, "again", verified(t, k, wrong), ErrInvalid)
		}
		if got := shelf.lookUps.Load(); got != 1 {
			t.Errorf("got %d look-ups, want 1", got)
		}
		time.Sleep(strangerTTL)
		want(t, "later", verified(t, k, wrong), ErrInvalid)
		if got := shelf.lookUps.Load(); got != 2 {
			t.Errorf("got %d look-ups after %s, want 2", got, strangerTTL)
		}
	})
}

// Many clients with many keys: what is remembered of them has a bound.
func TestMemoryHasABound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := followed(t, newShelf())
		for i := range 3 * maxStrangers {
			from := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
			_, err := k.Verify(t.Context(), texts.Mint().Whole(), from)
			if throttled := (*ThrottledError)(nil); !errors.Is(err, ErrInvalid) && !errors.As(err, &throttled) {
				t.Fatal(err)
			}
		}
		known := 0
		k.known.Range(func(any, any) bool { known++; return true })
		if len(k.unknown.until) > maxStrangers || len(k.guesses.clients) > maxClients || known != 0 {
			t.Errorf("%d prefixes, %d clients and %d keys are remembered", len(k.unknown.until), len(k.guesses.clients), known)
		}
	})
}

// Of a client with version 6 its network counts.
func TestANetworkOfVersion6IsOneClient(t *testing.T) {
	t.Parallel()
	g := newGuesses()
	for i := range guessBurst + 1 {
		from := netip.MustParseAddr(fmt.Sprintf("2001:db8:1:2::%x", i+1))
		guess, err := g.admit(t.Context(), from)
		guess.count()
		if throttled := (*ThrottledError)(nil); errors.As(err, &throttled) != (i == guessBurst) {
			t.Errorf("guess %d: %v", i, err)
		}
	}
	if _, err := g.admit(t.Context(), netip.MustParseAddr("2001:db8:1:3::1")); err != nil {
		t.Errorf("another network: %v", err)
	}
}

func TestWhatIsOldIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shelf := newShelf()
		k := followed(t, shelf)
		want(t, "one", verified(t, k, shelf.put("one", -1)), nil)
		time.Sleep(25 * time.Hour)
		synctest.Wait()
		if _, ok := k.known.Load("anything"); ok {
			t.Error("what was never there is known")
		}
		k.known.Range(func(prefix, _ any) bool {
			t.Errorf("%v is known after 25 h without a call", prefix)
			return true
		})
	})
}

func BenchmarkVerify(b *testing.B) {
	shelf := newShelf()
	k := New(lasting, shelf, slog.New(slog.DiscardHandler))
	defer k.stop()
	var given []credential.Text
	for i := range 1000 {
		given = append(given, shelf.put(fmt.Sprint(i), -1))
		if _, err := k.Verify(b.Context(), given[i].Whole(), netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})); err != nil {
			b.Fatal(err)
		}
	}
	whole := given[500].Whole()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := k.Verify(context.Background(), whole, somebody); err != nil {
				b.Fatal(err)
			}
		}
	})
}
