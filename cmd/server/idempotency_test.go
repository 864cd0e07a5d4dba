package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

const idempotencyKey = "Idempotency-Key"

// keyedProcesses runs the program twice, with a store of keys that both share. The
// first may end as it likes.
func keyedProcesses(t *testing.T, a *apptest.Upstream) (first, second *running) {
	t.Helper()
	text := apptest.OneTarget(a, fmt.Sprintf("cache: {url: %q, timeout: 5s}", redistest.Start(t).URL()),
		`server: {listen: "127.0.0.1:0", admin_listen: "127.0.0.1:0"}`, "auth: {mode: open}", "log: {format: json}",
		"idempotency: {wait: 5m}", `database: {url: "${DATABASE_URL}", max_conns: 4}`)
	text = strings.Replace(text, "total: 2m", "total: 5m", 1) // an owner may be stopped for as long as its lease
	database := postgrestest.URL(t)
	first = startProcess(t, text, database)
	t.Cleanup(func() {
		_ = first.process.Kill() // it may have been
		<-first.ended
	})
	return first, serveText(t, text, database)
}

// asks sends a request under a key in the background. Its client may be left without
// an answer.
func asks(t *testing.T, r *running, body string) <-chan apptest.Answer {
	t.Helper()
	got := make(chan apptest.Answer, 1)
	var client sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	client.Go(func() {
		answer, err := r.gateway().TryPost(ctx, body, idempotencyKey, "k")
		if err != nil {
			answer.Err = err
		}
		got <- answer
	})
	t.Cleanup(func() { cancel(); client.Wait() })
	return got
}

func awaitCalls(t *testing.T, a *apptest.Upstream, n int) {
	t.Helper()
	apptest.Eventually(t, func() string {
		if got := a.Calls(); got < n {
			return fmt.Sprintf("A was asked %d times, want %d", got, n)
		}
		return ""
	})
}

// A hundred who send one request under one key at once, to two processes, make one
// call and get one answer.
func TestTwinsOfTwoProcessesAreOneCall(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	a := apptest.NewUpstream(t, apptest.Held(release, apptest.OK()))
	first, second := keyedProcesses(t, a)
	both := []*running{first, second}
	var all []<-chan apptest.Answer
	for i := range 100 {
		all = append(all, asks(t, both[i%2], apptest.ChatBody))
	}
	awaitCalls(t, a, 1)
	close(release)
	made := 0
	for _, got := range all {
		answer := <-got
		if answer.Status != http.StatusOK || answer.Body != apptest.OKBody {
			t.Fatalf("a twin got %d %s %v", answer.Status, answer.Body, answer.Err)
		}
		if answer.Header.Get("Idempotent-Replayed") == "" {
			made++
		}
	}
	if made != 1 || a.Calls() != 1 {
		t.Errorf("%d answers were made by %d calls, want 1 by 1", made, a.Calls())
	}
	apptest.Eventually(t, func() string { // which may be told a little later than the answers are here
		charged := 0
		for _, r := range both {
			for _, n := range r.gateway().Metrics(t, "breakwater_attempts_total") {
				if n == "1" {
					charged++
				}
			}
		}
		if charged != 1 {
			return fmt.Sprintf("%d attempts were counted, want 1", charged)
		}
		return ""
	})
}

func TestAKilledOwnerFreesItsKey(t *testing.T) {
	t.Parallel()
	hang := apptest.Hang()
	for name, tc := range map[string]struct {
		body  string
		first apptest.Script
		calls int // in the end
	}{
		"before the upstream answers": {apptest.ChatBody, hang, 2},
		"while it answers": {apptest.StreamBody, func(w http.ResponseWriter, r *http.Request, n int) {
			apptest.Stream(apptest.RoleChunk, apptest.Chunk("o"))(w, r, n)
			hang(w, r, n)
		}, 2},
		"after it has answered": {apptest.ChatBody, apptest.OK(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			well := apptest.OK()
			if tc.body == apptest.StreamBody {
				well = apptest.OKStream()
			}
			a := apptest.NewUpstream(t, apptest.Sequence(tc.first, well))
			first, second := keyedProcesses(t, a)
			lost := asks(t, first, tc.body)
			awaitCalls(t, a, 1)
			if tc.calls == 1 {
				<-lost
			}
			if err := first.process.Kill(); err != nil {
				t.Fatal(err)
			}
			answer := <-asks(t, second, tc.body)
			replayed := answer.Header.Get("Idempotent-Replayed") == "true"
			if answer.Status != http.StatusOK || !strings.Contains(answer.Body, "ok") || replayed != (tc.calls == 1) {
				t.Errorf("the retry got %d %s, replayed %v", answer.Status, answer.Body, replayed)
			}
			again := <-asks(t, second, tc.body)
			if again.Body != answer.Body || again.Header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("and the next %d %s", again.Status, again.Body)
			}
			if got := a.Calls(); got != tc.calls {
				t.Errorf("A was asked %d times, want %d", got, tc.calls)
			}
		})
	}
}

// An owner that stands still for longer than its lease is replaced, and what it has
// when it goes on is its own client's alone.
func TestAStoppedOwnerIsFencedOff(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	late := apptest.JSON(200, strings.Replace(apptest.OKBody, `"ok"`, `"late"`, 1))
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Held(release, late), apptest.OK()))
	first, second := keyedProcesses(t, a)
	owner := asks(t, first, apptest.ChatBody)
	awaitCalls(t, a, 1)
	first.signal(t, syscall.SIGSTOP)
	heir := <-asks(t, second, apptest.ChatBody)
	if heir.Body != apptest.OKBody || heir.Header.Get("Idempotent-Replayed") != "" {
		t.Errorf("the retry got %d %s", heir.Status, heir.Body)
	}
	first.signal(t, syscall.SIGCONT)
	close(release)
	if got := <-owner; !strings.Contains(got.Body, "late") {
		t.Errorf("the first client got %d %s %v", got.Status, got.Body, got.Err)
	}
	first.gateway().AwaitMetric(t, `breakwater_idempotency_total{result="fenced"}`, "1")
	for _, r := range []*running{first, second} {
		if got := <-asks(t, r, apptest.ChatBody); got.Body != apptest.OKBody || got.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("a later retry got %d %s", got.Status, got.Body)
		}
	}
	if a.Calls() != 2 {
		t.Errorf("A was asked %d times, want 2", a.Calls())
	}
}
