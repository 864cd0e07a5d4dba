package clients

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

// shakyLine is a way to the gateway whose first connection can be cut.
type shakyLine struct {
	url   string
	first chan net.Conn // to the gateway
}

func newShakyLine(t *testing.T, gateway string) *shakyLine {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &shakyLine{url: "http://" + listener.Addr().String(), first: make(chan net.Conn, 1)}
	var work sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); work.Wait() })
	work.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", strings.TrimPrefix(gateway, "http://"))
			if err != nil {
				t.Error(err)
				return
			}
			select {
			case l.first <- near:
			default:
			}
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				_, _ = to.Close(), from.Close()
			}
			work.Go(func() { pass(far, near) })
			work.Go(func() { pass(near, far) })
		}
	})
	return l
}

// The official client loses its connection in the middle of a call, tries again by
// itself, and gets the answer of its one call.
func TestAClientThatLostItsConnectionGetsTheAnswer(t *testing.T) {
	t.Parallel()
	for name, whole := range map[string]bool{"whole": true, "stream": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			script := apptest.OK()
			if !whole {
				script = apptest.OKStream()
			}
			a := apptest.NewUpstream(t, apptest.Held(release, script))
			g := apptest.Start(t, apptest.OneTarget(a))
			line := newShakyLine(t, g.URL)
			go func() {
				defer close(release)
				for a.Calls() == 0 {
					<-time.After(10 * time.Millisecond)
				}
				_ = (<-line.first).Close()
			}()
			c := openai.NewClient(option.WithBaseURL(line.url+"/v1"), option.WithAPIKey("unused"), option.WithHeader("Idempotency-Key", "8e03978e-40d5"),
				option.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}})) // so that the line has an end
			if got := answerOf(t, c, whole); got != "ok" {
				t.Errorf("the client got %q", got)
			}
			if got := a.Calls(); got != 1 {
				t.Errorf("A was asked %d times, want once", got)
			}
			var replays int
			for _, run := range g.Runs(t, 2) {
				if run["outcome"] != "success" {
					t.Errorf("a run ended with %v %v", run["outcome"], run["failure_reason"])
				}
				if run["idempotent_replay"] == true {
					replays++
				}
			}
			if replays != 1 {
				t.Errorf("%d replays, want 1", replays)
			}
		})
	}
}

func answerOf(t *testing.T, c openai.Client, whole bool) string {
	t.Helper()
	if whole {
		completion, err := c.Chat.Completions.New(t.Context(), question())
		if err != nil {
			t.Fatal(err)
		}
		return completion.Choices[0].Message.Content
	}
	stream := c.Chat.Completions.NewStreaming(t.Context(), question())
	var text strings.Builder
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			text.WriteString(choice.Delta.Content)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}
