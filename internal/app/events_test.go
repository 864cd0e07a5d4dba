package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

const (
	circuitA = "alpha/m1/r1"
	// opensAtOnce opens at the first failure, for a moment.
	opensAtOnce = "circuit_breaker: {failure_threshold: 1, cooldown: 50ms, cooldown_multiplier: 1, cooldown_jitter: 0}"
)

// outage opens the circuit of A and closes it again: three transitions.
func outage(t *testing.T, g *apptest.Gateway, a *apptest.Upstream) {
	t.Helper()
	a.SetScript(apptest.Status(500))
	g.Post(t, apptest.ChatBody)
	a.SetScript(apptest.OK())
	g.AwaitEligible(t, circuitA)
	if answer := g.Post(t, apptest.ChatBody); answer.Status != http.StatusOK {
		t.Fatalf("the probe got %d %s", answer.Status, answer.Body)
	}
}

// history reads a circuit's events to their end, so many at a time.
func history(t *testing.T, g *apptest.Gateway, query string, limit int) []apptest.CircuitEvent {
	t.Helper()
	var all []apptest.CircuitEvent
	for {
		page := g.History(t, circuitA, fmt.Sprintf("?limit=%d%s", limit, query))
		all = append(all, page.Parsed(t)...)
		if page.NextCursor == "" {
			return all
		}
		query = "&cursor=" + page.NextCursor
	}
}

// awaitHistory waits until so many events are written.
func awaitHistory(t *testing.T, g *apptest.Gateway, n int) []apptest.CircuitEvent {
	t.Helper()
	var all []apptest.CircuitEvent
	apptest.Eventually(t, func() string {
		if all = history(t, g, "", 50); len(all) < n {
			return fmt.Sprintf("%d of %d events are written", len(all), n)
		}
		return ""
	})
	if len(all) != n {
		t.Fatalf("%d events are written, want %d", len(all), n)
	}
	return all
}

func cursors(events []apptest.CircuitEvent) []string {
	var all []string
	for _, e := range events {
		all = append(all, e.Cursor)
	}
	return all
}

// What is told while the database is away is found in the history when it is
// back, word by word, and a reader who was cut off goes on where it was.
func TestEventsAreToldLiveWithTheDatabaseAway(t *testing.T) {
	t.Parallel()
	link := apptest.NewLink(t, postgrestest.URL(t))
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.StartWith(t, apptest.OneTarget(a, opensAtOnce), link.URL)
	link.Cut()

	f := g.Follow(t, "")
	outage(t, g, a)
	told := f.Steps(3)
	for i, want := range []string{"closed open", "open half_open", "half_open closed"} {
		if told[i].Step() != want || told[i].Key != circuitA {
			t.Errorf("event %d is %s of %s, want %s", i, told[i].Step(), told[i].Key, want)
		}
	}
	f.Leave()
	outage(t, g, a)
	again := g.Follow(t, told[1].Cursor)
	told = append(told[:2], again.Steps(4)...)

	link.Mend()
	written := awaitHistory(t, g, 6)
	slices.Reverse(written)
	for i, e := range written {
		if diff := cmp.Diff(decoded(t, e.Raw), decoded(t, told[i].Raw)); diff != "" {
			t.Errorf("event %d (-written +told):\n%s", i, diff)
		}
	}

	g.Terminate()
	if kind, e := again.Next(); kind != "" {
		t.Errorf("at the end of the gateway: %s %s", kind, e.Raw)
	}
}

func decoded(t *testing.T, raw json.RawMessage) map[string]any {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// Numbers begin anew with a restart; cursors that were given out before it go
// on being good, and the stream says that it cannot know what was missed.
func TestAHistoryIsReadOnOverARestart(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	a := apptest.NewUpstream(t, apptest.OK())
	first := apptest.StartWith(t, apptest.OneTarget(a, opensAtOnce), url)
	outage(t, first, a)
	before := awaitHistory(t, first, 3)
	page := first.History(t, circuitA, "?limit=1")
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}

	second := apptest.StartWith(t, apptest.OneTarget(a, opensAtOnce), url)
	outage(t, second, a)
	all := awaitHistory(t, second, 6)
	if diff := cmp.Diff(cursors(before), cursors(all[3:])); diff != "" {
		t.Errorf("what was written before the restart (-then +now):\n%s", diff)
	}
	if diff := cmp.Diff(cursors(all[4:]), cursors(history(t, second, "&cursor="+page.NextCursor, 1))); diff != "" {
		t.Errorf("behind the page of before the restart (-want +got):\n%s", diff)
	}
	// Both lives have a number 2; the present one is meant.
	if diff := cmp.Diff(cursors(all[2:]), cursors(history(t, second, "&before=2", 2))); diff != "" {
		t.Errorf("before number 2 (-want +got):\n%s", diff)
	}

	f := second.Follow(t, before[0].Cursor)
	if kind, e := f.Next(); kind != "gap" || e.Reason != "restarted" {
		t.Errorf("a reader of before the restart is told %s %s first, want a gap", kind, e.Raw)
	}
	told := f.Steps(3)
	slices.Reverse(told)
	if diff := cmp.Diff(cursors(all[:3]), cursors(told)); diff != "" {
		t.Errorf("told behind the gap (-want +got):\n%s", diff)
	}
}

func TestTwoGatewaysOnOneDatabaseShareAHistory(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	a := apptest.NewUpstream(t, apptest.OK())
	one := apptest.StartWith(t, apptest.OneTarget(a, opensAtOnce), url)
	two := apptest.StartWith(t, apptest.OneTarget(a, opensAtOnce), url)
	for range 2 {
		outage(t, one, a)
		outage(t, two, a)
	}
	all := awaitHistory(t, one, 12)
	boots := map[string]int{}
	for i, e := range all {
		boots[e.BootID]++
		if i > 0 && e.At.After(all[i-1].At) {
			t.Errorf("the event at %s stands behind one at %s", e.At, all[i-1].At)
		}
	}
	if len(boots) != 2 || boots[all[0].BootID] != 6 {
		t.Errorf("events by gateway: %v, want 6 each", boots)
	}
	for limit := 1; limit <= 5; limit++ {
		if diff := cmp.Diff(cursors(all), cursors(history(t, two, "", limit))); diff != "" {
			t.Errorf("pages of %d from the other gateway (-want +got):\n%s", limit, diff)
		}
	}
}
