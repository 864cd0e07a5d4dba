package budget

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// TestTheScriptAndItsTwin takes random steps at random times with the Go of the
// ledger script and with its Lua on a real server, and compares every answer and
// every byte that they leave.
func TestTheScriptAndItsTwin(t *testing.T) {
	t.Parallel()
	server, err := cache.OpenValkey(redistest.Start(t).URL(), cache.ValkeyConfig{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	var walks atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		memory := cache.NewMemory(cache.MemoryConfig{})
		defer memory.Close()
		w := &twins{server: server, memory: memory, key: fmt.Sprintf("budget:{key:%d}", walks.Add(1)), now: 1_790_000_000_000}
		t.Repeat(map[string]func(*rapid.T){
			"":        w.compare,
			"reserve": w.reserve,
			"again":   w.reserve,
			"settle":  w.settle,
			"renew":   func(t *rapid.T) { w.run(t, stepRenew, w.day(t), w.month(t), w.name(t), w.name(t)) },
			"look":    func(t *rapid.T) { w.run(t, stepLook, w.day(t), w.month(t)) },
			"tell":    w.tell,
			"gather":  func(t *rapid.T) { w.run(t, stepGather, bit(rapid.Bool().Draw(t, "again"))) },
			"open":    w.open,
			"opens":   w.open,
			"yield":   func(t *rapid.T) { w.run(t, stepYield) },
			"lose":    func(t *rapid.T) { w.run(t, stepLose) },
			"advance": w.advance,
			"damage":  w.damage,
		})
	})
}

// twins are one scope on both, and a clock.
type twins struct {
	server *cache.Valkey
	memory *cache.Memory
	key    string
	now    int64
	births []string
}

// run takes one step on both.
func (w *twins) run(t *rapid.T, step string, args ...string) {
	token := "t" + strconv.Itoa(rapid.IntRange(0, 2).Draw(t, "token"))
	replica := "p" + strconv.Itoa(rapid.IntRange(0, 1).Draw(t, "replica"))
	args = append([]string{step, number(w.now), "30000", replica, token}, args...)
	want, err := w.memory.Run(context.Background(), ledgerScript, []string{w.key}, args...)
	if err != nil {
		t.Fatalf("%s in Go: %v", step, err)
	}
	got, err := w.server.Run(context.Background(), ledgerScript, []string{w.key}, args...)
	if err != nil {
		t.Fatalf("%s in Lua: %v", step, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("answer to %q (-Go +Lua):\n%s", args, diff)
	}
	if want[1] != "" && !slices.Contains(w.births, want[1]) {
		w.births = append(w.births, want[1])
	}
}

var dumpHash = &cache.Script{Name: "dump", Lua: `return redis.call('HGETALL', KEYS[1])`,
	Go: func(tx cache.Tx, keys, _ []string) ([]string, error) {
		var flat []string
		for field, value := range tx.HashAll(keys[0]) {
			flat = append(flat, field, value)
		}
		return flat, nil
	}}

func dump(t *rapid.T, c cache.Cache, key string) map[string]string {
	flat, err := c.Run(context.Background(), dumpHash, []string{key})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for i := 0; i < len(flat); i += 2 {
		all[flat[i]] = fmt.Sprintf("%q", flat[i+1])
	}
	return all
}

func (w *twins) compare(t *rapid.T) {
	want, got := dump(t, w.memory, w.key), dump(t, w.server, w.key)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("what is kept (-Go +Lua):\n%s", diff)
	}
}

func (w *twins) day(t *rapid.T) string {
	return "2026-09-2" + strconv.Itoa(rapid.IntRange(1, 8).Draw(t, "day"))
}

func (w *twins) month(t *rapid.T) string {
	return "2026-0" + strconv.Itoa(rapid.SampledFrom([]int{5, 6, 7, 8, 9, 9, 9, 9}).Draw(t, "month"))
}

func (w *twins) name(t *rapid.T) string {
	return "r:run" + strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "run"))
}

func (w *twins) amount(t *rapid.T, name string) int64 {
	return rapid.OneOf(rapid.Int64Range(0, 50), rapid.SampledFrom([]int64{top, top - 1, top / 2})).Draw(t, name)
}

func (w *twins) reserve(t *rapid.T) {
	limits := unlimited()
	for i := range limits {
		if rapid.IntRange(0, 2).Draw(t, "limited") == 0 {
			limits[i] = rapid.OneOf(rapid.Int64Range(0, 200), rapid.Just(int64(top))).Draw(t, strconv.Itoa(i))
		}
	}
	w.run(t, stepReserve, w.name(t), w.day(t), w.month(t), pack(w.amount(t, "tokens"), w.amount(t, "nano")), limits.pack())
}

func (w *twins) settle(t *rapid.T) {
	birth := ""
	if len(w.births) > 0 && rapid.Bool().Draw(t, "known birth") {
		birth = rapid.SampledFrom(w.births).Draw(t, "birth")
	}
	name := rapid.SampledFrom([]string{w.name(t), w.name(t), ""}).Draw(t, "whose")
	what := pack(rapid.Int64Range(0, 9).Draw(t, "numbered"), rapid.Int64Range(0, 1).Draw(t, "requests"), w.amount(t, "tokens"), w.amount(t, "nano"))
	w.run(t, stepSettle, name, w.day(t), w.month(t), birth, what, bit(rapid.IntRange(0, 3).Draw(t, "mark") == 0))
}

func (w *twins) entry(t *rapid.T) string {
	e := entry{
		state:   rapid.SampledFrom([]byte{stateLive, stateCharged, stateSettled}).Draw(t, "state"),
		expires: rapid.Int64Range(0, 60_000).Draw(t, "expires"), at: max(w.now/1000-rapid.Int64Range(-5, 70).Draw(t, "ago"), 0),
		counted: rapid.Bool().Draw(t, "counted"), amount: sums{1, rapid.Int64Range(0, 50).Draw(t, "t"), rapid.Int64Range(0, 50).Draw(t, "n")},
		day: w.day(t), month: w.month(t),
	}
	return e.encode()
}

func (w *twins) tell(t *rapid.T) {
	args := []string{number(rapid.Int64Range(0, 9).Draw(t, "numbered")), bit(rapid.Bool().Draw(t, "done")), "2026-09-21 1 2 3 2026-09 1 2 3"}
	for range rapid.IntRange(0, 3).Draw(t, "runs") {
		args = append(args, w.name(t), w.entry(t), rapid.SampledFrom(append([]string{"", "t0"}, w.births...)).Draw(t, "in"))
	}
	w.run(t, stepTell, args...)
}

func (w *twins) open(t *rapid.T) {
	args := []string{w.day(t), w.month(t), w.day(t), w.month(t)}
	for range 6 {
		args = append(args, number(w.amount(t, "spent")))
	}
	args = append(args, bit(rapid.IntRange(0, 3).Draw(t, "guess") == 0))
	for range rapid.IntRange(0, 2).Draw(t, "written") {
		args = append(args, w.name(t))
	}
	w.run(t, stepOpen, args...)
}

func (w *twins) advance(t *rapid.T) {
	w.now += rapid.OneOf(rapid.Int64Range(0, 2000), rapid.Int64Range(0, 90_000), rapid.Int64Range(-90_000, 0), rapid.Just(int64(chargedLife))).Draw(t, "time")
}

var setField = &cache.Script{Name: "set", Lua: `
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], 172800000)
return {}`,
	Go: func(tx cache.Tx, keys, args []string) ([]string, error) {
		tx.HashSet(keys[0], args[0], args[1], life)
		return nil, nil
	}}

// damage writes what no script would.
func (w *twins) damage(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
		return
	}
	all := dump(t, w.memory, w.key)
	if len(all) == 0 {
		return
	}
	field := rapid.SampledFrom(slices.Sorted(maps.Keys(all))).Draw(t, "field")
	value, _ := strconv.Unquote(all[field])
	at := rapid.IntRange(0, max(len(value)-1, 0)).Draw(t, "at")
	value = value[:at] + rapid.SampledFrom([]string{"", " ", "x", "9", "99999999999999999", "\x00", "-", "9007199254740993"}).Draw(t, "instead") + value[min(at+1, len(value)):]
	for _, c := range []cache.Cache{w.memory, w.server} {
		if _, err := c.Run(context.Background(), setField, []string{w.key}, field, value); err != nil {
			t.Fatal(err)
		}
	}
}
