package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/runs"
)

// follower reads the stream of events.
type follower struct {
	t     *testing.T
	lines *bufio.Scanner
	leave context.CancelFunc
	id    string // of the last event that had one
}

// follow opens the stream and returns when it has begun.
func follow(t *testing.T, c *console, query, lastEventID string) *follower {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), time.Hour)
	header := http.Header{}
	if lastEventID != "" {
		header.Set("Last-Event-ID", lastEventID)
	}
	resp := c.start(t, ctx, http.MethodGet, "/api/v1/events"+query, http.NoBody, header)
	t.Cleanup(func() {
		leave()
		_ = resp.Body.Close()
	})
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("status %d, headers %v", resp.StatusCode, resp.Header)
	}
	return &follower{t: t, lines: bufio.NewScanner(resp.Body), leave: leave}
}

// next returns the next event: its kind and, of a circuit, its number, of a gap,
// its reason and how much was missed; "end" when the stream is over.
func (f *follower) next() string {
	f.t.Helper()
	fields := map[string]string{}
	for f.lines.Scan() {
		name, value, _ := strings.Cut(f.lines.Text(), ": ")
		switch {
		case name == "" && value == "" && fields["data"] != "":
			return f.said(fields)
		case name == "" && value == "":
			f.t.Fatal("a blank line that ends no event")
		default:
			fields[name] = value
		}
	}
	return "end"
}

func (f *follower) said(fields map[string]string) string {
	f.t.Helper()
	var data struct {
		Seq    int64
		Cursor string
		Reason string
		Missed *int64
	}
	if err := json.Unmarshal([]byte(fields["data"]), &data); err != nil {
		f.t.Fatal(err)
	}
	if fields["event"] == "circuit" {
		if f.id = fields["id"]; f.id != data.Cursor {
			f.t.Errorf("id %s of an event with the cursor %s", f.id, data.Cursor)
		}
		return fmt.Sprint("circuit ", data.Seq)
	}
	if fields["id"] != "" {
		f.t.Error("a gap has an id, so that it is not told again")
	}
	if data.Missed == nil {
		return fmt.Sprint(fields["event"], " ", data.Reason)
	}
	return fmt.Sprint(fields["event"], " ", data.Reason, " ", *data.Missed)
}

// expect reads events and compares them.
func (f *follower) expect(want ...string) {
	f.t.Helper()
	var got []string
	for range want {
		got = append(got, f.next())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Fatalf("events (-want +got):\n%s", diff)
	}
}

// moved is the event of a circuit with a number.
func moved(seq uint64, key string) breaker.Event {
	return breaker.Event{
		Seq: seq, Key: key, From: breaker.Closed, To: breaker.Open, Reason: breaker.ReasonConsecutive,
		OpenFor: 30 * time.Second, At: time.Date(2026, 1, 2, 3, 4, 5, int(seq)*1000, time.UTC), Actor: breaker.ActorBreaker,
	}
}

// tell tells the events with the numbers from one to another.
func tell(c *console, from, to uint64) {
	for ; from <= to; from++ {
		c.deps.Feed.CircuitEvent(moved(from, "alpha/m1/r1"))
	}
}

// withFeed serves a feed that keeps ten events and has room for two readers.
func withFeed(a *api.Admin, _ *api.Snapshot) {
	a.Feed = api.NewFeed(api.FeedConfig{Writer: writer, Kept: 10, Readers: 2})
}

func TestEventsAreToldAsTheyHappen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := setupAdmin(t, withFeed)
		tell(c, 1, 3) // before anybody listens
		f := follow(t, c, "", "")
		synctest.Wait()
		tell(c, 4, 5)
		f.expect("circuit 4", "circuit 5")
		c.deps.Feed.CircuitEvent(breaker.Event{Seq: 6, Key: "no target"})
		tell(c, 7, 7)
		f.expect("circuit 7")
	})
}

// What is told and what is read back later has the same form.
func TestAnEventIsToldInTheFormOfTheHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		event := moved(1, "beta/vendor/m2/r2")
		written, _ := runs.EventOf(writer.Node, writer.Boot, event)
		c := setupAdmin(t, withFeed, func(a *api.Admin, _ *api.Snapshot) { a.Events = &history{events: []runs.Event{written}} })
		resp := c.start(t, t.Context(), http.MethodGet, "/api/v1/events", http.NoBody, nil)
		defer func() { _ = resp.Body.Close() }()
		synctest.Wait()
		c.deps.Feed.CircuitEvent(event)

		listed := c.get(t, "/api/v1/circuits/beta%2Fvendor%2Fm2%2Fr2/events").body
		entry := strings.TrimSuffix(strings.TrimPrefix(listed, `{"events":[`), `],"next_cursor":null}`+"\n")
		want := "retry: 2000\nid: " + written.Position().Cursor() + "\nevent: circuit\ndata: " + entry + "\n\n"
		got := make([]byte, len(want))
		for n := 0; n < len(got); {
			more, err := resp.Body.Read(got[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += more
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("stream (-want +got):\n%s", diff)
		}
	})
}

func TestAReaderMayAskForSomeCircuitsOnly(t *testing.T) {
	t.Parallel()
	for query, want := range map[string][]string{
		"?provider=alpha":                             {"circuit 1", "circuit 2", "circuit 4"},
		"?key=beta%2Fvendor%2Fm2%2Fr2":                {"circuit 3", "circuit 5"},
		"?key=alpha%2Fm1%2Fr1&provider=alpha":         {"circuit 1", "circuit 4"},
		"?provider=alpha&key=beta%2Fvendor%2Fm2%2Fr2": {},
		"": {"circuit 1", "circuit 2", "circuit 3", "circuit 4", "circuit 5"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := setupAdmin(t, withFeed)
			f := follow(t, c, query, "")
			synctest.Wait()
			for i, key := range []string{"alpha/m1/r1", "alpha/m1/r2", "beta/vendor/m2/r2", "alpha/m1/r1", "beta/vendor/m2/r2"} {
				c.deps.Feed.CircuitEvent(moved(uint64(i+1), key))
			}
			go func() { _ = c.deps.Feed.Stop(context.Background()) }()
			f.expect(append(want, "end")...)
		})
	}
	c := setupAdmin(t)
	for query, param := range map[string]string{"?key=alpha": "key", "?since=1": "since"} {
		if got := c.get(t, "/api/v1/events"+query); got.status != 400 || problemOf(t, got.body).param() != param {
			t.Errorf("%s: status %d, body %s", query, got.status, got.body)
		}
	}
}

func TestAQuietStreamIsKeptAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := setupAdmin(t, withFeed)
		resp := c.start(t, t.Context(), http.MethodGet, "/api/v1/events", http.NoBody, nil)
		defer func() { _ = resp.Body.Close() }()
		begun, lines := time.Now(), bufio.NewScanner(resp.Body)
		for _, want := range []string{"0s retry: 2000", "15s : ping", "30s : ping"} {
			lines.Scan()
			if got := fmt.Sprint(time.Since(begun), " ", lines.Text()); got != want {
				t.Errorf("heard %q, want %q", got, want)
			}
		}
	})
}

// Every place from which a reader may come back, in a feed that keeps ten events
// of twenty and never had the number 15.
func TestAReaderThatComesBackGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	id := func(node string, boot uuid.UUID, seq uint64) string {
		event, _ := runs.EventOf(node, boot, moved(seq, "alpha/m1/r1"))
		return event.Position().Cursor()
	}
	mine := func(seq uint64) string { return id(writer.Node, writer.Boot, seq) }
	all := []string{"circuit 10", "circuit 11", "circuit 12", "circuit 13", "circuit 14", "gap dropped 1", "circuit 16", "circuit 17", "circuit 18", "circuit 19", "circuit 20"}
	for name, tc := range map[string]struct {
		id   string
		want []string
	}{
		"from the latest":                  {mine(20), nil},
		"from one that is kept":            {mine(18), all[9:]},
		"from right before what is kept":   {mine(9), all},
		"from before that":                 {mine(6), append([]string{"gap not_kept 3"}, all...)},
		"from one that was dropped":        {mine(15), all[6:]},
		"from before one that was dropped": {mine(14), all[5:]},
		"from another life":                {id(writer.Node, uuid.Max, 18), append([]string{"gap restarted"}, all...)},
		"from another gateway":             {id("n2", writer.Boot, 18), append([]string{"gap restarted"}, all...)},
		"from what has not happened":       {mine(21), append([]string{"gap unknown_id"}, all...)},
		"from no id":                       {"17", append([]string{"gap unknown_id"}, all...)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := setupAdmin(t, withFeed)
				tell(c, 1, 14)
				tell(c, 16, 20)
				f := follow(t, c, "", tc.id)
				synctest.Wait()
				tell(c, 21, 21)
				f.expect(append(tc.want, "circuit 21")...)
			})
		})
	}
}

func TestEventsThatWereDroppedBeforeTheFirstAreAGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := setupAdmin(t, withFeed)
		f := follow(t, c, "", "")
		synctest.Wait()
		tell(c, 4, 4)
		f.expect("gap dropped 3", "circuit 4")
	})
}

// After a restart nothing may have happened yet.
func TestAReaderThatComesBackToANewGatewayIsToldSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		event, _ := runs.EventOf(writer.Node, uuid.Max, moved(7, "alpha/m1/r1"))
		c := setupAdmin(t, withFeed)
		f := follow(t, c, "", event.Position().Cursor())
		f.expect("gap restarted")
		tell(c, 1, 1)
		f.expect("circuit 1")
	})
}

// A reader that stops reading for a moment is told what it has missed; meanwhile
// nobody waits for it. A real socket would hold more for it.
func TestASlowReaderIsToldWhatItHasMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := setupAdmin(t, withFeed)
		slow, quick := follow(t, c, "", ""), follow(t, c, "", "")
		synctest.Wait()
		var seen []string
		for seq := uint64(1); seq <= 100; seq++ {
			tell(c, seq, seq)
			synctest.Wait()
			seen = append(seen, quick.next())
		}
		if seen[0] != "circuit 1" || seen[99] != "circuit 100" {
			t.Errorf("the quick reader saw %v", seen)
		}

		told, missed := 0, 0
		for told+missed < 100 {
			var n int
			switch said := slow.next(); {
			case strings.HasPrefix(said, "circuit "):
				told++
			case strings.HasPrefix(said, "gap not_kept "):
				_, _ = fmt.Sscanf(said, "gap not_kept %d", &n)
				missed += n
			default:
				t.Fatalf("the slow reader was told %q after %d events", said, told)
			}
		}
		if told+missed != 100 || missed == 0 || slow.id != quick.id {
			t.Errorf("told %d, missed %d of 100, up to %s; want some missed and the same last event as %s", told, missed, slow.id, quick.id)
		}
	})
}

// A reader that does not read at all makes room for others.
func TestAReaderThatDoesNotReadIsLetGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := setupAdmin(t, withFeed)
		stuck := follow(t, c, "", "")
		follow(t, c, "", "")
		for seq := uint64(1); seq <= 100; seq++ {
			tell(c, seq, seq)
			synctest.Wait()
		}
		if got := c.get(t, "/api/v1/events"); got.status != 503 || problemOf(t, got.body).code() != "overloaded" || got.header.Get("Retry-After") != "1" {
			t.Errorf("a third reader of two: status %d, body %s", got.status, got.body)
		}
		<-time.After(4 * time.Second) // longer than a reader may take
		follow(t, c, "", "")
		for said := stuck.next(); said != "end"; said = stuck.next() {
			if said == "circuit 100" {
				t.Fatal("a reader that took four seconds was told everything")
			}
		}
	})
}

func TestStoppingSendsTheRestAndEndsTheStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := setupAdmin(t, withFeed)
		f, gone := follow(t, c, "", ""), follow(t, c, "", "")
		gone.leave()
		synctest.Wait()
		tell(c, 1, 2)
		stopped := make(chan error, 1)
		go func() { stopped <- c.deps.Feed.Stop(t.Context()) }()
		f.expect("circuit 1", "circuit 2", "end")
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if err := c.deps.Feed.Stop(t.Context()); err != nil {
			t.Errorf("stopped again: %v", err)
		}
		if got := c.get(t, "/api/v1/events"); got.status != 503 || problemOf(t, got.body).code() != "shutting_down" {
			t.Errorf("afterwards: status %d, body %s", got.status, got.body)
		}
	})
}

func TestStoppingDoesNotWaitForAStuckReaderForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := setupAdmin(t, withFeed)
		follow(t, c, "", "")
		for seq := uint64(1); seq <= 100; seq++ {
			tell(c, seq, seq)
			synctest.Wait()
		}
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.deps.Feed.Stop(ctx); err == nil || !strings.Contains(err.Error(), "end the event streams") {
			t.Errorf("within a second: %v", err)
		}
		if err := c.deps.Feed.Stop(t.Context()); err != nil || time.Since(begun) > 3*time.Second {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
	})
}
