package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// A gateway that is killed with calls in flight leaves no reservation behind:
// after its lease they count as what they might have used.
func TestAKilledProcessLeavesNothingReserved(t *testing.T) {
	t.Parallel()
	const calls = 3
	a := apptest.NewUpstream(t, apptest.Hang())
	text := apptest.OneTarget(a, fmt.Sprintf("cache: {url: %q, timeout: 10s}", redistest.Start(t).URL()),
		"configurations:\n  chat: {targets: [{provider: alpha, model: m1}], limits: {requests_per_day: 10, tokens_per_day: 100000}}",
		`server: {listen: "127.0.0.1:0", admin_listen: "127.0.0.1:0"}`, "auth: {mode: open}", "log: {format: json}",
		"budget: {default_max_output: 1000}", `database: {url: "${DATABASE_URL}", max_conns: 4}`)
	database := postgrestest.URL(t)
	stays := serveText(t, text, database).gateway()
	dies := startProcess(t, text, database)

	var clients sync.WaitGroup
	for range calls {
		clients.Go(func() {
			if answer, err := dies.gateway().TryPost(context.Background(), apptest.ChatBody); err == nil && answer.Status == http.StatusOK {
				t.Errorf("a call of a killed gateway got %s", answer.Body)
			}
		})
	}
	apptest.Eventually(t, func() string {
		if n := a.Calls(); n < calls {
			return fmt.Sprintf("%d calls have reached A", n)
		}
		return ""
	})
	held := stays.Limits(t, "chat")["requests_per_day"]
	if held.Reserved.String() != fmt.Sprint(calls) || held.Spent.String() != "0" {
		t.Errorf("while they run %s requests are reserved and %s spent, want %d and 0", held.Reserved, held.Spent, calls)
	}
	dies.signal(t, syscall.SIGKILL)
	clients.Wait()
	<-dies.ended

	awaitCharged(t, stays, calls)
	perCall := int64(len(apptest.ChatBody) + 1000)
	if got := stays.Limits(t, "chat")["tokens_per_day"].Spent.String(); got != fmt.Sprint(calls*perCall) {
		t.Errorf("%s tokens are spent, want %d calls at their bound of %d", got, calls, perCall)
	}
}

// awaitCharged waits through a lease until so many requests are spent and none is
// reserved.
func awaitCharged(t *testing.T, g *apptest.Gateway, requests int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		got := g.Limits(t, "chat")["requests_per_day"]
		if got.Spent.String() == fmt.Sprint(requests) && got.Reserved.String() == "0" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s requests are reserved and %s spent, want 0 and %d", got.Reserved, got.Spent, requests)
		}
	}
}
