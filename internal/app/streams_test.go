package app_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

const alphaCircuit = "alpha/m1/r1"

// serving is the section of the listeners with further keys.
func serving(keys string) string {
	return "server: {listen: \"127.0.0.1:0\", admin_listen: \"127.0.0.1:0\", " + keys + "}"
}

// endless streams chunks of content for as long as they are read.
func endless(w http.ResponseWriter, r *http.Request, _ int) {
	w.Header().Set("Content-Type", "text/event-stream")
	for chunk := apptest.Chunk(strings.Repeat("x", 16<<10)); r.Context().Err() == nil; {
		if _, err := io.WriteString(w, chunk); err != nil {
			return
		}
	}
}

// A client that stops reading holds its own stream up, and nothing else: the
// upstream is let go, and neither its circuit nor its health hears of it.
func TestASlowReaderNeverTripsAProvider(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, endless)
	g := apptest.Start(t, apptest.Configuration(serving("write_timeout: 12s")+"\ncircuit_breaker: {failure_threshold: 1}",
		apptest.Provider{Name: "alpha", Region: "r1", Upstream: a, Extra: "timeouts: {connect: 1m, first_token: 1m, idle: 8s, total: 1m}"}))

	conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(apptest.StreamBody), apptest.StreamBody); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil { // the stream has begun
		t.Fatal(err)
	}

	want := apptest.Row{"outcome": "cancelled", "failure_class": "cancelled", "failure_reason": "slow_reader", "served_provider": "alpha"}
	if diff := cmp.Diff(want, g.Runs(t, 1)[0].Only(want)); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	want = apptest.Row{"outcome": "neutral", "failure_class": "cancelled", "failure_reason": "slow_reader"}
	if diff := cmp.Diff(want, g.Attempts(t, 1)[0].Only(want)); diff != "" {
		t.Errorf("attempt (-want +got):\n%s", diff)
	}
	if circuit := g.Circuit(t, alphaCircuit); circuit.State != "closed" || circuit.Failures != 0 {
		t.Errorf("circuit %+v, want it closed without failures", circuit)
	}
	apptest.Eventually(t, func() string {
		if a.Aborted() != 1 {
			return "the upstream is still read"
		}
		return ""
	})
}

// A stream that has sent its headers early still moves on to the next target,
// since nothing of an answer was sent; only if none is left it ends in an error.
func TestAStreamThatBeganEarlyMayStillFallBack(t *testing.T) {
	t.Parallel()
	pinged := make(chan struct{})
	a := apptest.NewUpstream(t, apptest.Held(pinged, apptest.Status(503)))
	b := apptest.NewUpstream(t, apptest.OKStream())
	g := apptest.Start(t, apptest.TwoTargets(a, b, serving("stream_commit_after: 200ms, stream_keepalive: 200ms")))
	early := func() apptest.Answer {
		t.Helper()
		client := g.Open(t, apptest.StreamBody)
		client.Until(": ping")
		close(pinged) // A fails only now
		return client.Rest()
	}

	answer := early()

	if got := answer.Content(t); answer.Status != 200 || got != "ok" || !strings.HasPrefix(answer.Body, ": ping\n") {
		t.Errorf("status %d, content %q, stream %q; want B's after a ping", answer.Status, got, answer.Body)
	}
	for _, name := range []string{"X-Breakwater-Attempts", "X-Breakwater-Target"} {
		if got := answer.Header.Values(name); got != nil {
			t.Errorf("%s is %q before it can be known", name, got)
		}
	}

	pinged = make(chan struct{})
	a.SetScript(apptest.Held(pinged, apptest.Status(503)))
	b.SetScript(apptest.Status(500))
	failed := early()
	if got := failed.LastError(t); failed.Status != 200 || got.Code != "upstream_stream_failed" || strings.Contains(failed.Body, "[DONE]") {
		t.Errorf("status %d, stream %q; want an error event at its end", failed.Status, failed.Body)
	}
	want := []apptest.Row{{"outcome": "success", "http_status": 200, "attempts": 2}, {"outcome": "failure", "http_status": 200, "attempts": 2}}
	for i, run := range g.Runs(t, 2) {
		if diff := cmp.Diff(want[i], run.Only(want[i])); diff != "" {
			t.Errorf("run %d (-want +got):\n%s", i, diff)
		}
	}
}

// What a stream holds in memory does not grow with its length. The test has the
// process to itself: upstream, gateway and client share one heap.
func TestAStreamIsNeverHeldAsAWhole(t *testing.T) {
	const length, bound = 200 << 20, 32 << 20
	chunk := apptest.Chunk(strings.Repeat("x", 64<<10))
	a := apptest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		for sent := 0; sent < length; sent += len(chunk) {
			_, _ = io.WriteString(w, chunk)
		}
		_, _ = io.WriteString(w, apptest.FinishChunk+apptest.Done)
	})
	g := apptest.Start(t, apptest.OneTarget(a))
	before := heap()

	resp, err := http.Post(g.URL+"/v1/chat/completions", "application/json", strings.NewReader(apptest.StreamBody))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, highest := int64(0), uint64(0)
	for err == nil {
		var n int64
		n, err = io.CopyN(io.Discard, resp.Body, 10<<20)
		got, highest = got+n, max(highest, heap())
	}

	if err != io.EOF || got < length {
		t.Errorf("read %d bytes, then %v", got, err)
	}
	if highest > before+bound {
		t.Errorf("the heap grew from %d to %d KiB while %d MiB went through", before>>10, highest>>10, length>>20)
	}
}

// heap returns the bytes that are in use.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
