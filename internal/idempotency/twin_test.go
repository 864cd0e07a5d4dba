package idempotency

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// TestTheScriptAndItsTwin takes random steps at random times with the Go of the
// script and with its Lua on a real server, and compares every answer, every byte
// they leave, how long it is kept, and what is published.
func TestTheScriptAndItsTwin(t *testing.T) {
	t.Parallel()
	server := newTwinServer(t)
	rapid.Check(t, func(t *rapid.T) {
		w := server.walk(t)
		t.Repeat(map[string]func(*rapid.T){
			"":        w.compare,
			"claim":   w.claim,
			"renew":   func(t *rapid.T) { w.run(t, stepRenew, w.lease(t)) },
			"store":   w.store,
			"free":    func(t *rapid.T) { w.run(t, stepFree, w.lease(t), w.bytes(t, "failure")) },
			"advance": func(t *rapid.T) { w.now += rapid.Int64Range(0, 4_000_000).Draw(t, "ms") },
			"lose":    w.lose,
			"damage":  w.damage,
		})
		if diff := gocmp.Diff(w.shelf.published, server.said(t, w.name)); diff != "" {
			t.Fatalf("published (-Go +Lua):\n%s", diff)
		}
	})
}

type twinServer struct {
	*cache.Valkey
	walks int

	mu    sync.Mutex
	heard []string
	news  chan struct{}
}

func newTwinServer(t *testing.T) *twinServer {
	t.Helper()
	store, err := cache.OpenValkey(redistest.Start(t).URL(), cache.ValkeyConfig{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s := &twinServer{Valkey: store, news: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() { _ = store.Watch(ctx, hints, s.hear) })
	t.Cleanup(func() { stop(); watch.Wait(); _ = store.Close() })
	for deadline := time.Now().Add(2 * time.Minute); !store.Available(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server is not reached")
		}
	}
	for len(s.names()) == 0 { // the first words may come before the watch begins
		s.publish(t, "begin")
	}
	return s
}

func (s *twinServer) hear(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, name)
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *twinServer) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.heard)
}

var publish = &cache.Script{Name: "publish", Lua: `redis.call('PUBLISH', ARGV[1], ARGV[2]) return {}`}

// publish says a word and waits a moment for it.
func (s *twinServer) publish(t interface{ Fatal(...any) }, word string) {
	if _, err := s.Run(context.Background(), publish, []string{"x"}, hints, word); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.news:
	case <-time.After(100 * time.Millisecond):
	}
}

// said returns what was published of a key, once all of it must have come.
func (s *twinServer) said(t *rapid.T, name string) []string {
	end := "end of " + name
	for s.publish(t, end); !slices.Contains(s.names(), end); s.publish(t, end) {
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var said []string
	for _, word := range s.heard {
		if word == name {
			said = append(said, word)
		}
	}
	s.heard = nil
	return said
}

// twins are one key on both, and a clock.
type twins struct {
	server *twinServer
	shelf  *shelf
	name   string
	now    int64
}

func (s *twinServer) walk(t *rapid.T) *twins {
	s.walks++
	return &twins{
		server: s, shelf: &shelf{}, name: fmt.Sprint("key", s.walks),
		now: rapid.Int64Range(1_000_000_000_000, 4_000_000_000_000).Draw(t, "now"),
	}
}

func (w *twins) token(t *rapid.T, what string) string {
	return rapid.SampledFrom([]string{"t1", "t2", "t3"}).Draw(t, what)
}

// lease is so long that nothing expires while a walk lasts.
func (w *twins) lease(t *rapid.T) string {
	return strconv.Itoa(rapid.IntRange(1_000_000, 3_000_000).Draw(t, "lease"))
}

func (w *twins) bytes(t *rapid.T, what string) string {
	return string(rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, what))
}

func (w *twins) run(t *rapid.T, step string, args ...string) {
	print := rapid.SampledFrom([]string{"p1", "p1", "p1", "p2"}).Draw(t, "print")
	args = append([]string{step, strconv.FormatInt(w.now, 10), w.token(t, "token"), print, w.name}, args...)
	want, err := runKey(w.shelf, []string{recordKey(w.name)}, args)
	if err != nil {
		t.Fatalf("%s in Go: %v", step, err)
	}
	got, err := w.server.Run(context.Background(), keyScript, []string{recordKey(w.name)}, args...)
	if err != nil {
		t.Fatalf("%s in Lua: %v", step, err)
	}
	if diff := gocmp.Diff(fmt.Sprintf("%q", want), fmt.Sprintf("%q", got)); diff != "" {
		t.Fatalf("answer to %q (-Go +Lua):\n%s", args, diff)
	}
}

func (w *twins) claim(t *rapid.T) {
	some := func(what string) string {
		return rapid.SampledFrom([]string{"", "t1", "t2", "t3"}).Draw(t, what)
	}
	w.run(t, stepClaim, w.lease(t), some("awaited"), some("lost"), rapid.SampledFrom([]string{"0", "1"}).Draw(t, "waits"))
}

func (w *twins) store(t *rapid.T) {
	state := rapid.SampledFrom([]string{stateDone, stateOversized}).Draw(t, "state")
	w.run(t, stepStore, state, strconv.Itoa(rapid.IntRange(0, 40).Draw(t, "chunks")), w.lease(t), w.bytes(t, "answer"))
}

func (w *twins) lose(t *rapid.T) {
	w.shelf.value = ""
	if err := w.server.Delete(context.Background(), recordKey(w.name)); err != nil {
		t.Fatal(err)
	}
}

// damage writes what is no record, or changes one.
func (w *twins) damage(t *rapid.T) {
	bad := w.bytes(t, "garbage")
	if text := w.shelf.value; text != "" && rapid.Bool().Draw(t, "cut") {
		bad = text[:rapid.IntRange(0, len(text)-1).Draw(t, "at")]
	}
	if bad == "" {
		return
	}
	w.shelf.Set("", bad, time.Hour)
	if err := w.server.Set(context.Background(), recordKey(w.name), []byte(bad), time.Hour); err != nil {
		t.Fatal(err)
	}
}

var look = &cache.Script{Name: "look", Lua: `return {redis.call('GET', KEYS[1]) or '', tostring(redis.call('PTTL', KEYS[1]))}`}

func (w *twins) compare(t *rapid.T) {
	seen, err := w.server.Run(context.Background(), look, []string{recordKey(w.name)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(fmt.Sprintf("%q", w.shelf.value), fmt.Sprintf("%q", seen[0])); diff != "" {
		t.Fatalf("record (-Go +Lua):\n%s", diff)
	}
	ms, err := strconv.Atoi(seen[1])
	if err != nil {
		t.Fatal(err)
	}
	got, most := time.Duration(ms)*time.Millisecond, w.shelf.ttl
	if w.shelf.value != "" && (got > most || got < most-time.Since(w.shelf.at)-5*time.Millisecond) {
		t.Fatalf("time to live: Go %v, Lua %v", most, got)
	}
}

// shelf is a store for one key.
type shelf struct {
	value     string
	ttl       time.Duration
	at        time.Time
	published []string
}

var _ cache.Tx = (*shelf)(nil)

func (s *shelf) Now() time.Time            { return time.Now() }
func (s *shelf) Get(string) (string, bool) { return s.value, s.value != "" }
func (s *shelf) Set(_, value string, ttl time.Duration) {
	s.value, s.ttl, s.at = value, ttl, time.Now()
}
func (s *shelf) Delete(string)                           { panic("not used") }
func (s *shelf) HashAll(string) map[string]string        { panic("not used") }
func (s *shelf) HashGet(_, _ string) (string, bool)      { panic("not used") }
func (s *shelf) HashSet(_, _, _ string, _ time.Duration) { panic("not used") }
func (s *shelf) HashDelete(_, _ string)                  { panic("not used") }
func (s *shelf) Publish(_, name string)                  { s.published = append(s.published, name) }
