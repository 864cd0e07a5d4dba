package budget

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

// TestTheScriptAgainstANaiveModel lets runs reserve, resize, settle, settle again,
// fall silent and come back, with answers that are lost and sent again, under a
// clock that is set back at times; and holds every answer to a model that keeps
// all that happened in a list.
func TestTheScriptAgainstANaiveModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		memory := cache.NewMemory(cache.MemoryConfig{})
		defer memory.Close()
		m := &model{store: memory, now: 1_790_000_000_000, runs: map[string]*modelRun{}}
		m.step(t, stepLook, modelDay, modelMonth)
		m.birth = m.step(t, stepOpen, modelDay, modelMonth, modelDay, modelMonth, "0", "0", "0", "0", "0", "0", "0")[1]
		t.Repeat(map[string]func(*rapid.T){
			"":        m.compare,
			"reserve": m.reserve,
			"settle":  m.settle,
			"renew":   m.renew,
			"wait":    func(t *rapid.T) { m.pass(rapid.Int64Range(0, 20_000).Draw(t, "ms")) },
			"back":    func(t *rapid.T) { m.pass(-rapid.Int64Range(0, 5_000).Draw(t, "ms")) },
		})
	})
}

// TestAClockSetBackAfterARenewal keeps no reservation beyond a lease from then.
func TestAClockSetBackAfterARenewal(t *testing.T) {
	t.Parallel()
	memory := cache.NewMemory(cache.MemoryConfig{})
	t.Cleanup(func() { _ = memory.Close() })
	at := func(seconds int64, step string, args ...string) []string {
		t.Helper()
		args = append([]string{step, number(1_790_000_000_000 + 1000*seconds), number(modelLease), "p", "birth"}, args...)
		got, err := memory.Run(t.Context(), ledgerScript, []string{"budget:{key:m}"}, args...)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	limits := unlimited()
	at(0, stepLook, modelDay, modelMonth)
	at(0, stepOpen, modelDay, modelMonth, modelDay, modelMonth, "0", "0", "0", "0", "0", "0", "0")
	at(0, stepReserve, "r:run", modelDay, modelMonth, pack(1, 0), limits.pack())
	at(14, stepRenew, modelDay, modelMonth, "r:run")
	at(9, stepLook, modelDay, modelMonth) // its lease ends at 39
	a, err := read(cache.Result{Values: at(40, stepLook, modelDay, modelMonth)})
	if err != nil || a.numbers.live != 0 {
		t.Errorf("got %d calls alive and %v, want none", a.numbers.live, err)
	}
}

const (
	modelDay, modelMonth = "2026-09-21", "2026-09"
	modelLease           = 30_000
	modelTokens          = 500 // the limit
	modelRequests        = 12
	modelAtOnce          = 4
)

// modelRun is what is known of one run: what it holds, or what it was charged.
type modelRun struct {
	live    bool
	settled bool
	tokens  int64
	expires int64
}

type model struct {
	store *cache.Memory
	now   int64
	birth string
	runs  map[string]*modelRun
	ended int // settled runs and what they used
	used  int64
}

func (m *model) step(t *rapid.T, step string, args ...string) []string {
	t.Helper()
	args = append([]string{step, number(m.now), number(modelLease), "p", "birth"}, args...)
	times := 1 + rapid.IntRange(0, 1).Draw(t, "sent again")
	var first []string
	for i := range times {
		got, err := m.store.Run(context.Background(), ledgerScript, []string{"budget:{key:m}"}, args...)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = got
		}
	}
	return first
}

// pass moves the clock. After it was set back, nobody is kept longer than a
// lease from now.
func (m *model) pass(ms int64) { m.now += ms }

// lapse does what time has done when a script looks.
func (m *model) lapse() {
	for _, r := range m.runs {
		r.expires = min(r.expires, m.now+modelLease)
		if r.live && r.expires <= m.now {
			r.live = false // charged: its tokens stay
		}
	}
}

func (m *model) sums() (live int, requests, tokens int64) {
	requests, tokens = int64(m.ended), m.used
	for _, r := range m.runs {
		if r.settled {
			continue
		}
		requests, tokens = requests+1, tokens+r.tokens
		if r.live {
			live++
		}
	}
	return live, requests, tokens
}

func (m *model) draw(t *rapid.T) string {
	return fmt.Sprintf("r:run%d", rapid.IntRange(0, 15).Draw(t, "run"))
}

func (m *model) reserve(t *rapid.T) {
	name, tokens := m.draw(t), rapid.Int64Range(0, 120).Draw(t, "tokens")
	if r := m.runs[name]; r != nil && r.settled {
		return // its life is over
	}
	m.lapse()
	live, requests, sum := m.sums()
	own := m.runs[name]
	fits := own != nil || live < modelAtOnce && requests < modelRequests
	if own != nil {
		sum -= own.tokens
	}
	fits = fits && (tokens == 0 || own != nil && tokens <= own.tokens || sum+tokens <= modelTokens)
	limits := caps{atConcurrent: modelAtOnce, atTokensPerMinute: none, atRequestsPerMinute: none, atRequestsPerDay: modelRequests,
		atTokensPerDay: modelTokens, atCostPerDay: none, atRequestsPerMonth: none, atTokensPerMonth: none, atCostPerMonth: none}
	got := m.step(t, stepReserve, name, modelDay, modelMonth, pack(tokens, 0), limits.pack())
	want := codeRefused
	if fits {
		want = codeGranted
		m.runs[name] = &modelRun{tokens: tokens}
		own = m.runs[name]
	}
	if own != nil { // it lives, granted or not
		own.live = true
		if fits || own.expires <= m.now {
			own.expires = m.now + modelLease
		}
	}
	if got[0] != want {
		t.Fatalf("reserve %d for %s: got %s, want %s", tokens, name, got[0], want)
	}
}

func (m *model) settle(t *rapid.T) {
	name, tokens := m.draw(t), rapid.Int64Range(0, 150).Draw(t, "tokens")
	reached := rapid.Bool().Draw(t, "reached")
	requests := int64(0)
	if reached {
		requests = 1
	} else {
		tokens = 0
	}
	m.lapse()
	got := m.step(t, stepSettle, name, modelDay, modelMonth, m.birth, pack(1, requests, tokens, 0), "0")
	r := m.runs[name]
	if r == nil || r.settled {
		if got[0] != codeStale {
			t.Fatalf("settle of %s again: got %s, want %s", name, got[0], codeStale)
		}
		return
	}
	r.settled, r.live = true, false
	m.ended += int(requests)
	m.used += tokens
	if got[0] != codeDone {
		t.Fatalf("settle of %s: got %s, want %s", name, got[0], codeDone)
	}
}

func (m *model) renew(t *rapid.T) {
	name := m.draw(t)
	m.lapse()
	m.step(t, stepRenew, modelDay, modelMonth, name)
	if r := m.runs[name]; r != nil && r.live {
		r.expires = m.now + modelLease
	}
}

func (m *model) compare(t *rapid.T) {
	m.lapse()
	live, requests, tokens := m.sums()
	a, err := read(cache.Result{Values: m.step(t, stepLook, modelDay, modelMonth)})
	if err != nil {
		t.Fatal(err)
	}
	d := a.numbers.day
	got := []int64{a.numbers.live, d.spent.requests + d.reserved.requests, d.spent.tokens + d.reserved.tokens}
	if diff := cmp.Diff([]int64{int64(live), requests, tokens}, got); diff != "" {
		t.Fatalf("live, requests, tokens (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(a.numbers.day.encode(), a.numbers.month.encode()); diff != "" {
		t.Fatalf("a month of one day (-day +month):\n%s", diff)
	}
}
