package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	opening = `{"key":"p/m/default","at":"2026-11-30T12:00:01Z","from_state":"closed","to_state":"open","reason":"consecutive"}`
	closing = `{"key":"p/m/default","at":"2026-11-30T12:00:03Z","from_state":"half_open","to_state":"closed","reason":"probe_success"}`
)

// follow reads what a gateway tells before it ends the stream.
func follow(t *testing.T, told string) *journal {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("key") != "p/m/default" {
			http.Error(w, "another key", http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, told)
	}))
	t.Cleanup(server.Close)
	j := &journal{}
	if err := j.open(t.Context(), server.URL, "p/m/default"); err != nil {
		t.Fatal(err)
	}
	<-j.done
	return j
}

func TestTheJournalHoldsEveryEvent(t *testing.T) {
	t.Parallel()
	if j := follow(t, ""); !j.closed() || j.opened(at(0)) {
		t.Error("a circuit of which nothing is told is not closed")
	}
	j := follow(t, ": quiet\n\nevent: circuit\nid: 1\ndata: "+opening+"\n\n")
	if j.closed() || !j.opened(at(1)) || j.opened(at(1.5)) {
		t.Errorf("after %+v: closed %t, opened since 1 s %t, since 1.5 s %t; want false, true, false", j.events, j.closed(), j.opened(at(1)), j.opened(at(1.5)))
	}
	j = follow(t, "event: circuit\ndata: "+opening+"\n\nevent: circuit\ndata: "+closing+"\n\n")
	want := []event{{at(1), "closed", "open", "consecutive"}, {at(3), "half_open", "closed", "probe_success"}}
	if diff := cmp.Diff(want, j.events); diff != "" || !j.closed() {
		t.Errorf("events (-want +got), closed %t:\n%s", j.closed(), diff)
	}
}

func TestTheJournalSaysThatItMissedSomething(t *testing.T) {
	t.Parallel()
	for told, want := range map[string]string{
		"event: gap\ndata: {\"reason\":\"dropped\"}\n\n": `gap: {"reason":"dropped"}`,
		"event: circuit\ndata: {\n\n":                    "read an event",
		"event: circuit\ndata: " + opening + "\n\n":      "the events ended before the drill",
	} {
		if _, err := follow(t, told).close(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", told, err, want)
		}
	}
}

func TestTheJournalEndsWhenItIsTold(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	j := &journal{}
	if err := j.open(ctx, server.URL, "p/m/default"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if events, err := j.close(); err != nil || events != nil {
		t.Errorf("events %v, error %v, want neither", events, err)
	}
	server.Config.Handler = http.NotFoundHandler()
	if err := (&journal{}).open(t.Context(), server.URL, "p/m/default"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("error %v, want one with the status", err)
	}
}
