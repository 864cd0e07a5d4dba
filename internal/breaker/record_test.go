package breaker

import (
	"maps"
	"strconv"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// Whatever lies in the store, a record is read only when it is one that would
// be written, on any clock.
func FuzzRecord(f *testing.F) {
	for _, packed := range someRecords(f) {
		f.Add(packed, int64(0))
		f.Add(packed[:len(packed)-1], int64(time.Hour))
	}
	f.Fuzz(func(t *testing.T, packed string, shift int64) {
		decode(packed, time.Duration(shift))
		r, ok := decode(packed, 0)
		if !ok {
			return
		}
		if diff := gocmp.Diff(packed, r.encode()); diff != "" {
			t.Errorf("%+v was read, and encodes as something else (-read +written):\n%s", r, diff)
		}
	})
}

// Whatever a step is called with, it is either taken, and leaves a record that
// can be read and a time to live, or refused, and leaves everything as it was.
func FuzzCircuitScript(f *testing.F) {
	policies := []string{testPolicy(), (&Settings{}).pack()}
	for i, packed := range someRecords(f) {
		for _, step := range [][]string{
			append([]string{stepSync}, (&delta{generation: 1, calls: 9, failures: 9, tail: 9, cause: "x", outcomes: []byte{1, 3, 0}}).pack(true, All)...),
			{stepAcquire, pack(7, 0), "", ""},
			{stepSettle, pack(0, 7, 0, float64(Failure), 0), "x", ""},
			{stepRenew, pack(7, 8), "", ""},
		} {
			f.Add(packed, step[0], int64(2_000_000_000_000_000), policies[i%2], "1023", "0.5", "k", step[1], step[2], step[3], "", "")
		}
		f.Add(packed, stepCommand, int64(2_000_000_000_000_000), policies[i%2], "0", "0", "k", string(ActionHalfOpen), pack(5), "0", "why", "who")
	}
	f.Fuzz(func(t *testing.T, packed, step string, now int64, policy, random, jitter, key, a, b, c, d, e string) {
		s := newShelf()
		if packed != "" {
			s.Set("id", packed, time.Hour)
		}
		before := maps.Clone(s.values)
		args := []string{step, strconv.FormatInt(now, 10), policy, random, jitter, key}
		args = append(args, []string{a, b, c, d, e}[:argumentsOf(step)]...)
		answer, err := runCircuit(s, []string{"id", "index"}, args)
		if err != nil {
			if diff := gocmp.Diff(before, s.values); diff != "" {
				t.Errorf("refused with %v, but wrote (-before +after):\n%s", err, diff)
			}
			return
		}
		if len(answer) != 4 {
			t.Fatalf("answer: got %q, want four strings", answer)
		}
		if answer[2] != "" && answer[2] != s.values["id"] {
			t.Errorf("answered %q, stored %q", answer[2], s.values["id"])
		}
		if _, ok := decode(s.values["id"], 0); !ok && s.values["id"] != packed {
			t.Errorf("wrote a record that cannot be read: %q", s.values["id"])
		}
	})
}

// R8: the step that ends what a person has said is a move like any other, also
// for a replica that has not heard of any generation.
func TestWhatWasSeenBeforeAPersonsWordEndedIsStale(t *testing.T) {
	t.Parallel()
	s := newShelf()
	run := func(now, step string, args ...string) []string {
		t.Helper()
		answer, err := runCircuit(s, []string{"id", "index"}, append([]string{step, now, testPolicy(), "1", "0.5", "k"}, args...))
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	run("2000000000000000", stepCommand, string(ActionDisable), pack(1_000_000), "0", "why", "ann")

	failure := delta{generation: firstGeneration, calls: 1, failures: 1, tail: 1, cause: "x"}
	for _, row := range []struct{ now, code string }{{"2000000001000000", "stale"}, {"2000000001000001", "applied"}} {
		if got := run(row.now, stepSync, failure.pack(true, 0)...)[0]; got != row.code {
			t.Errorf("a failure told at %s µs: got %s, want %s", row.now, got, row.code)
		}
	}
	if r, _ := decode(s.values["id"], 0); r.state != Open {
		t.Errorf("the circuit is %v, want it open for the second failure", r.state)
	}
}

func argumentsOf(step string) int {
	return map[string]int{stepSync: 3, stepAcquire: 1, stepSettle: 2, stepRenew: 1, stepCommand: 5}[step]
}

func testPolicy() string {
	s := testSettings()
	return s.pack()
}

// someRecords are one of every state, over either kind of window.
func someRecords(t testing.TB) []string {
	t.Helper()
	var all []string
	for _, window := range []Window{{Span: 30 * time.Second, Buckets: 10}, {Calls: 20}} {
		settings := testSettings()
		settings.Window = window
		for _, action := range []Action{ActionClose, ActionOpen, ActionDisable, ActionShadow, ActionHalfOpen} {
			s := newShelf()
			run := func(step string, args ...string) {
				t.Helper()
				head := []string{step, "2000000000000000", settings.pack(), "1", "0.5", "k"}
				if _, err := runCircuit(s, []string{"id", "index"}, append(head, args...)); err != nil {
					t.Fatal(err)
				}
			}
			fails := delta{generation: 1, calls: 2, failures: 1, broken: true, cause: "x", outcomes: []byte{0, failedBit}}
			run(stepSync, fails.pack(true, 0)...)
			if action == ActionHalfOpen {
				fails.tail = 1
				run(stepSync, fails.pack(true, 0)...)
			}
			run(stepCommand, string(action), pack(0), "0", "why", "who")
			if action == ActionHalfOpen {
				run(stepAcquire, pack(7, 0))
			}
			if _, ok := decode(s.values["id"], 0); !ok {
				t.Fatalf("%s left no record", action)
			}
			all = append(all, s.values["id"])
		}
	}
	return all
}
