package breaker

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// TestTheScriptAndItsTwin takes random steps at random times with the Go of the
// circuit script and with its Lua on a real server, and compares every answer,
// every byte they leave, how long it is kept, and what is published.
func TestTheScriptAndItsTwin(t *testing.T) {
	t.Parallel()
	server := setupTwins(t)
	rapid.Check(t, func(t *rapid.T) {
		w := newTwins(t, server)
		t.Repeat(map[string]func(*rapid.T){
			"":        w.compare,
			"sync":    w.sync,
			"success": func(t *rapid.T) { w.tell(t, &delta{calls: 1, broken: true, outcomes: []byte{0}}) },
			"failure": func(t *rapid.T) {
				w.tell(t, &delta{calls: 1, failures: 1, tail: 1, row: 1, cause: "server_error", outcomes: []byte{failedBit}})
			},
			"nothing": func(t *rapid.T) { w.tell(t, &delta{}) },
			"acquire": w.acquire,
			"settle":  w.settle,
			"renew":   w.renew,
			"command": w.command,
			"advance": w.advance,
			"due":     w.due,
			"policy":  func(t *rapid.T) { w.settings = drawSettings(t) },
			"lose":    w.lose,
			"damage":  w.damage,
		})
		w.compareHints(t)
	})
}

// twinServer is the server that the Lua runs on.
type twinServer struct {
	*cache.Valkey
	walks atomic.Int64
	heard chan string // on the channel of hints
}

func setupTwins(t *testing.T) *twinServer {
	t.Helper()
	store, err := cache.OpenValkey(redistest.Start(t).URL(), cache.ValkeyConfig{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s := &twinServer{Valkey: store, heard: make(chan string, 1<<16)}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = store.Watch(ctx, hints, func(message string) { s.heard <- message })
	}()
	t.Cleanup(func() { stop(); <-over; _ = store.Close() })
	for n := range 600 { // the first words may come before the watch begins
		if _, err = s.await(fmt.Sprintf("watching %d", n), 100*time.Millisecond); err == nil {
			return s
		}
	}
	t.Fatal(err)
	return nil
}

var publish = &cache.Script{Name: "publish", Lua: `redis.call('PUBLISH', ARGV[1], ARGV[2]) return {}`}

// await publishes a word and returns what was heard until then, with the word.
func (s *twinServer) await(word string, patience time.Duration) ([]string, error) {
	if _, err := s.Run(context.Background(), publish, []string{"x"}, hints, word); err != nil {
		return nil, err
	}
	var heard []string
	for late := time.After(patience); ; {
		select {
		case message := <-s.heard:
			heard = append(heard, message)
			if message == word {
				return heard, nil
			}
		case <-late:
			return heard, fmt.Errorf("%q was not heard, but %q", word, heard)
		}
	}
}

// twins are one circuit on both, a policy and a clock.
type twins struct {
	server   *twinServer
	shelf    *shelf
	keys     []string
	key      string
	settings *Settings
	now      int64 // microseconds
	leases   []uint64
	old      uint64        // a generation that was
	lag      time.Duration // the longest that the server did something after the shelf
}

func newTwins(t *rapid.T, server *twinServer) *twins {
	n := server.walks.Add(1)
	for len(server.heard) > 0 { // of a walk that failed
		<-server.heard
	}
	return &twins{
		server: server, shelf: newShelf(),
		keys: []string{fmt.Sprintf("cb:{%d}:key", n), fmt.Sprintf("cb:{%d}:open", n)},
		key:  drawBytes(t, "key"), settings: drawSettings(t),
		now: rapid.Int64Range(1_000_000_000_000_000, 4_000_000_000_000_000).Draw(t, "now"),
	}
}

func drawBytes(t *rapid.T, name string) string {
	return string(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, name))
}

// drawSettings draws valid settings of whole microseconds. No record expires
// during a walk: StepDecay and IdleTTL see to that.
func drawSettings(t *rapid.T) *Settings {
	n := rapid.IntRange(1, 4).Draw(t, "half_open_calls")
	upTo := func(name string, most time.Duration) time.Duration {
		return time.Duration(rapid.Int64Range(1, int64(most/time.Microsecond)).Draw(t, name)) * time.Microsecond
	}
	s := &Settings{
		Enabled: rapid.IntRange(0, 5).Draw(t, "enabled") > 0, FailureThreshold: rapid.IntRange(0, 4).Draw(t, "failure_threshold"),
		Canary: rapid.Bool().Draw(t, "canary"), CanaryCloses: rapid.Bool().Draw(t, "canary closes"), CanaryDemand: time.Minute,
		Cooldown:           upTo("cooldown", 30*time.Second),
		CooldownMultiplier: rapid.SampledFrom([]float64{1, 1.1, 1.37, 2, math.Pi, 1000}).Draw(t, "multiplier"),
		CooldownJitter:     rapid.SampledFrom([]float64{0, 0.1, 0.25, 1. / 3, 1}).Draw(t, "jitter"),
		StepDecay:          5*time.Second + upTo("step_decay", time.Minute), MaxRetryAfter: upTo("max_retry_after", 100*time.Second),
		HalfOpenCalls: n, SuccessThreshold: rapid.IntRange(1, n).Draw(t, "success_threshold"),
		MaxHalfOpen: upTo("max_half_open", time.Minute), Lease: upTo("lease", 30*time.Second),
		MaxNeutral: rapid.IntRange(1, 4).Draw(t, "max_neutral"),
		IdleTTL:    rapid.SampledFrom([]time.Duration{10 * time.Minute, 2 * time.Hour, forever}).Draw(t, "idle_ttl"),
	}
	s.MaxCooldown = s.Cooldown + upTo("max_cooldown", time.Hour)
	drawRate(t, s)
	drawSlow(t, s)
	if rapid.IntRange(0, 9).Draw(t, "extreme") == 0 {
		s.StepDecay, s.MaxRetryAfter, s.MaxHalfOpen, s.MaxCooldown = forever, forever, forever, 100*24*time.Hour
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	return s
}

// run takes one step on both.
func (w *twins) run(t *rapid.T, step string, args ...string) {
	jitter := rapid.SampledFrom([]float64{0, 0.1, 0.5, 0.123456789, 0.999999}).Draw(t, "u")
	args = append([]string{
		step, strconv.FormatInt(w.now, 10), w.settings.pack(), strconv.Itoa(rapid.IntRange(0, 1023).Draw(t, "random")),
		strconv.FormatFloat(jitter, 'g', -1, 64), w.key,
	}, args...)
	began := time.Now()
	want, err := runCircuit(w.shelf, w.keys, args)
	if err != nil {
		t.Fatalf("%s in Go: %v", step, err)
	}
	got, err := w.server.Run(context.Background(), circuitScript, w.keys, args...)
	if err != nil {
		t.Fatalf("%s in Lua: %v", step, err)
	}
	w.lag = max(w.lag, time.Since(began))
	if diff := gocmp.Diff(readable(want), readable(got)); diff != "" {
		t.Fatalf("answer to %s (-Go +Lua):\n%s", step, diff)
	}
}

// readable shows the record in an answer, and the bytes of all of it.
func readable(answer []string) []any {
	shown := []any{fmt.Sprintf("%q", answer)}
	if len(answer) == 4 {
		shown = append(shown, describe(answer[2]))
	}
	return shown
}

func describe(packed string) string {
	r, ok := decode(packed, 0)
	if !ok {
		return "no record"
	}
	window, episode := r.window, r.episode
	r.window, r.episode = nil, nil // would be shown as addresses
	return fmt.Sprintf("%+v window %+v episode %+v", r, window, episode)
}

// record is what Go has stored.
func (w *twins) record() (record, bool) { return decode(w.shelf.values[w.keys[0]], 0) }

func (w *twins) generation(t *rapid.T) uint64 {
	r, _ := w.record()
	if rapid.IntRange(0, 7).Draw(t, "other generation") > 0 {
		return r.generation
	}
	return rapid.SampledFrom([]uint64{0, firstGeneration, w.old, r.generation + 1}).Draw(t, "generation")
}

func (w *twins) sync(t *rapid.T) {
	few := func(name string) uint64 { return uint64(rapid.IntRange(0, 5).Draw(t, name)) }
	d := &delta{
		calls: few("calls"), failures: few("failures"), slow: few("slow"), blamed: few("blamed") / 4, tail: few("tail") / 2,
		broken: rapid.Bool().Draw(t, "broken"), cause: drawBytes(t, "cause"),
		reach:    time.Duration(rapid.Int64Range(0, 90_000_000).Draw(t, "reach")) * time.Microsecond,
		outcomes: rapid.SliceOfN(rapid.ByteRange(0, 3), 0, 12).Draw(t, "outcomes"),
	}
	d.row, d.held = d.tail+few("row")/4, few("held") == 0
	switch rapid.IntRange(0, 11).Draw(t, "rare") {
	case 0:
		d.openFor = time.Duration(rapid.Int64Range(1, 200_000_000).Draw(t, "open_for")) * time.Microsecond
	case 1:
		d.calls, d.failures, d.slow = d.calls<<31, d.failures<<30, d.slow<<31
	case 2:
		d.openFor, d.reach = forever, forever
	}
	w.tell(t, d)
}

func (w *twins) tell(t *rapid.T, d *delta) {
	d.generation = w.generation(t)
	margin := rapid.SampledFrom([]Rate{0, 70_000, All}).Draw(t, "margin")
	w.run(t, stepSync, d.pack(rapid.IntRange(0, 5).Draw(t, "saw it closed") > 0, margin)...)
}

func (w *twins) acquire(t *rapid.T) {
	lease := rapid.Uint64Range(0, 1<<53-1).Draw(t, "lease")
	w.leases = append(w.leases, lease, uint64(len(w.leases)))
	w.run(t, stepAcquire, pack(float64(lease), float64(bit(rapid.Bool().Draw(t, "canary")))))
}

func pack(numbers ...float64) string {
	var p packer
	p.numbers(numbers...)
	return string(p)
}

// lease is one that was given, most often one of the last.
func (w *twins) lease(t *rapid.T) float64 {
	if len(w.leases) == 0 {
		return 1
	}
	last := len(w.leases) - 1
	return float64(w.leases[rapid.IntRange(max(0, last-9), last).Draw(t, "lease")])
}

func (w *twins) settle(t *rapid.T) {
	hint := 0.0
	if rapid.IntRange(0, 9).Draw(t, "hint") == 0 {
		hint = float64(rapid.Int64Range(1, 200_000_000).Draw(t, "open_for"))
	}
	kind := rapid.SampledFrom([]Kind{Success, Success, Failure, Neutral}).Draw(t, "kind")
	early := bit(rapid.IntRange(0, 3).Draw(t, "early") == 0)
	w.run(t, stepSettle, pack(float64(w.generation(t)), w.lease(t), float64(early), float64(kind), hint), drawBytes(t, "cause"))
}

func (w *twins) renew(t *rapid.T) {
	var leases []float64
	for range rapid.IntRange(0, 4).Draw(t, "leases") {
		leases = append(leases, w.lease(t))
	}
	w.run(t, stepRenew, pack(leases...))
}

func (w *twins) command(t *rapid.T) {
	actions := []Action{ActionOpen, ActionHalfOpen, ActionClose, ActionReset, ActionDisable, ActionShadow, ActionShadow, ActionShadow}
	lasts := 0.0
	if rapid.Bool().Draw(t, "with an end") {
		lasts = float64(rapid.Int64Range(1, 100_000_000).Draw(t, "for"))
	}
	again := strconv.Itoa(rapid.IntRange(0, 1).Draw(t, "reassert"))
	w.run(t, stepCommand, string(rapid.SampledFrom(actions).Draw(t, "action")), pack(lasts), again, w.words(t, "note"), w.words(t, "actor"))
}

// words are sometimes more than a record holds.
func (w *twins) words(t *rapid.T, name string) string {
	text := drawBytes(t, name)
	if rapid.IntRange(0, 20).Draw(t, "long") == 0 {
		return fmt.Sprintf("%s%070000d", text, 1)
	}
	return text
}

// advance moves the clock, sometimes back.
func (w *twins) advance(t *rapid.T) {
	most := rapid.SampledFrom([]int64{30_000, 1_000_000, 90_000_000}).Draw(t, "most")
	us := rapid.Int64Range(0, most).Draw(t, "us")
	switch rapid.IntRange(0, 20).Draw(t, "rare") {
	case 0, 1:
		us = -us
	case 2:
		us = rapid.Int64Range(-3_600_000_000, 3_600_000_000).Draw(t, "hour")
	}
	w.now += us
}

// due moves it to where something is, give or take.
func (w *twins) due(t *rapid.T) {
	r, ok := w.record()
	if !ok {
		return
	}
	moments := []time.Duration{r.openUntil, r.override.until, r.muted, r.near + patience, r.streak.last}
	if r.episode != nil {
		moments = append(moments, r.episode.slots[0].expiresAt)
	}
	at := rapid.SampledFrom(moments).Draw(t, "moment")
	if us := int64(micros(at)); us > w.now && us < w.now+int64(48*time.Hour/time.Microsecond) {
		w.now = us + rapid.Int64Range(-1, 1).Draw(t, "off")
	}
	if r.generation != w.old {
		w.old = r.generation
	}
}

// lose takes the record away, or the index.
func (w *twins) lose(t *rapid.T) {
	key := rapid.SampledFrom(w.keys).Draw(t, "which")
	w.shelf.Delete(key)
	if err := w.server.Delete(context.Background(), key); err != nil {
		t.Fatal(err)
	}
}

// damage leaves something else in place of the record, once.
func (w *twins) damage(t *rapid.T) {
	packed := []byte(w.shelf.values[w.keys[0]])
	if _, ok := w.record(); !ok && len(packed) > 0 {
		return
	}
	switch most := len(packed) - 1; rapid.IntRange(0, 5).Draw(t, "damage") {
	case 0:
		packed = rapid.SliceOf(rapid.Byte()).Draw(t, "garbage")
	case 1:
		packed = append([]byte{format}, rapid.SliceOf(rapid.Byte()).Draw(t, "garbage")...)
	case 2:
		packed = packed[:rapid.IntRange(0, max(0, most)).Draw(t, "length")]
	case 3:
		packed = append(packed, 0)
	default:
		if most = len(packed) - w.believed(); most <= 0 {
			return
		}
		packed[rapid.IntRange(0, most-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	}
	began := time.Now()
	w.shelf.Set(w.keys[0], string(packed), time.Hour)
	if err := w.server.Set(context.Background(), w.keys[0], packed, time.Hour); err != nil {
		t.Fatal(err)
	}
	w.lag = max(w.lag, time.Since(began))
}

// believed is how many bytes at the end of the record the Lua does not examine,
// because each run would pay for it: what the window has counted.
func (w *twins) believed() int {
	r, _ := w.record()
	switch window := r.window.(type) {
	case *timeWindow:
		return 24 + 12*len(window.buckets)
	case *countWindow:
		return 24 + int(window.sum.calls)
	default: // no record
		return 0
	}
}

// look reads back what the server keeps.
var look = &cache.Script{Name: "look", Lua: `
local seen = {redis.call('GET', KEYS[1]) or '', tostring(redis.call('PTTL', KEYS[1])), tostring(redis.call('PTTL', KEYS[2]))}
for _, text in ipairs(redis.call('HGETALL', KEYS[2])) do
  seen[#seen + 1] = text
end
return seen`}

func (w *twins) compare(t *rapid.T) {
	before := time.Now()
	seen, err := w.server.Run(context.Background(), look, w.keys)
	if err != nil {
		t.Fatal(err)
	}
	after := time.Now()
	if want := w.shelf.values[w.keys[0]]; seen[0] != want {
		t.Fatalf("the record:\n  Go: %s\n      %q\n Lua: %s\n      %q", describe(want), want, describe(seen[0]), seen[0])
	}
	var index []string
	for field, value := range w.shelf.hashes[w.keys[1]] {
		index = append(index, field, value)
	}
	if diff := gocmp.Diff(fmt.Sprintf("%q", index), fmt.Sprintf("%q", seen[3:])); diff != "" {
		t.Fatalf("index (-Go +Lua):\n%s", diff)
	}
	for i, key := range w.keys {
		ms, err := strconv.Atoi(seen[1+i])
		if err != nil {
			t.Fatal(err)
		}
		expires, kept := w.shelf.expires[key]
		if !kept && ms == -2 {
			continue
		}
		const rounding = 5 * time.Millisecond
		got, least, most := time.Duration(ms)*time.Millisecond, expires.Sub(after)-rounding, expires.Sub(before)+w.lag+rounding
		if !kept || got < least || got > most {
			t.Fatalf("time to live of %s: Go %v to %v, Lua %v", key, least, most, got)
		}
	}
}

// compareHints compares what was published since the walk began.
func (w *twins) compareHints(t *rapid.T) {
	end := fmt.Sprintf("end of %s", w.keys[0])
	heard, err := w.server.await(end, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(append(w.shelf.published, end), heard); diff != "" {
		t.Fatalf("hints (-Go +Lua):\n%s", diff)
	}
}

// shelf is a store for one circuit on which nothing expires before its time is
// compared.
type shelf struct {
	values    map[string]string
	hashes    map[string]map[string]string
	expires   map[string]time.Time
	published []string
}

var _ cache.Tx = (*shelf)(nil)

func newShelf() *shelf {
	return &shelf{values: map[string]string{}, hashes: map[string]map[string]string{}, expires: map[string]time.Time{}}
}

func (s *shelf) Now() time.Time { return time.Now() }

func (s *shelf) Get(key string) (string, bool) {
	value, ok := s.values[key]
	return value, ok
}

func (s *shelf) Set(key, value string, ttl time.Duration) {
	s.values[key], s.expires[key] = value, time.Now().Add(ttl)
}

func (s *shelf) Delete(key string) {
	delete(s.values, key)
	delete(s.hashes, key)
	delete(s.expires, key)
}

func (s *shelf) HashGet(key, field string) (string, bool) {
	value, ok := s.hashes[key][field]
	return value, ok
}

func (s *shelf) HashAll(key string) map[string]string { return s.hashes[key] }

func (s *shelf) HashSet(key, field, value string, ttl time.Duration) {
	if s.hashes[key] == nil {
		s.hashes[key] = map[string]string{}
	}
	s.hashes[key][field] = value
	if expires := time.Now().Add(ttl); expires.After(s.expires[key]) {
		s.expires[key] = expires
	}
}

func (s *shelf) HashDelete(key, field string) {
	delete(s.hashes[key], field)
	if len(s.hashes[key]) == 0 {
		s.Delete(key)
	}
}

func (s *shelf) Publish(_, message string) { s.published = append(s.published, message) }
