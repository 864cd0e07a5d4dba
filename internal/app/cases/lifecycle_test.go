package cases

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

var lifecycle = theme{
	"LIF_01": drainingLetsRunningStreamsFinish,
	"LIF_03": bufferedRecordsSurviveAGracefulStop,
}

// drainingLetsRunningStreamsFinish has a stream outlast the time in which new
// calls are still answered.
func drainingLetsRunningStreamsFinish(t *testing.T) {
	release := make(chan struct{})
	a := apptest.NewUpstream(t, heldInTheMiddle(release))
	g := apptest.Start(t, apptest.Configuration(
		`server: {listen: "127.0.0.1:0", admin_listen: "127.0.0.1:0", drain_delay: 10s, drain_timeout: 5m}`, alpha(a)))

	streamed := make(chan apptest.Answer, 1)
	go func() {
		answer, err := g.TryPost(context.Background(), apptest.StreamBody)
		answer.Err = err
		streamed <- answer
	}()
	apptest.Eventually(t, func() string {
		if a.Calls() == 0 {
			return "the stream has not begun"
		}
		return ""
	})
	if got := apptest.Get(t, g.URL+"/readyz").Status; got != http.StatusOK {
		t.Errorf("readiness before SIGTERM is %d, want 200", got)
	}

	g.Terminate()
	apptest.Eventually(t, func() string {
		if got := apptest.Get(t, g.URL+"/readyz").Status; got != http.StatusServiceUnavailable {
			return fmt.Sprintf("readiness after SIGTERM is %d, want 503", got)
		}
		return ""
	})
	if got := apptest.Get(t, g.URL+"/healthz").Status; got != http.StatusOK {
		t.Errorf("liveness while draining is %d, want 200", got)
	}
	refused := g.Post(t, apptest.ChatBody)
	if refused.Status != http.StatusServiceUnavailable {
		t.Errorf("a new call while draining got %d %s, want 503", refused.Status, refused.Body)
	}
	if a.Calls() != 1 {
		t.Errorf("upstream was asked %d times, want 1", a.Calls())
	}

	apptest.Eventually(t, func() string {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
		if err == nil {
			_ = conn.Close()
			return "new calls are still answered"
		}
		return ""
	})
	close(release)
	answer := <-streamed
	if answer.Err != nil {
		t.Fatalf("the running stream was cut: %v", answer.Err)
	}
	if events := answer.DataEvents(); events[len(events)-1] != "[DONE]" {
		t.Errorf("the running stream ends with %q, want [DONE]", events[len(events)-1])
	}
	ended := time.Now()
	if err := g.Stop(); err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
	if late := time.Since(ended); late > time.Minute {
		t.Errorf("the gateway ended %s after its last call, want at once", late)
	}
}

// bufferedRecordsSurviveAGracefulStop lets a database that is slower than a stop
// is patient have them at the next start.
func bufferedRecordsSurviveAGracefulStop(t *testing.T) {
	url := postgrestest.URL(t)
	text := apptest.OneTarget(apptest.NewUpstream(t, apptest.OK()),
		fmt.Sprintf("telemetry: {flush_interval: 60s, spool_dir: %q}", t.TempDir()))
	g := apptest.StartWith(t, text, url)
	for range 20 {
		g.Post(t, apptest.ChatBody)
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(g.Logs.String(), "telemetry waits in the spool") {
		apptest.StartWith(t, text, url)
	}
	g.Runs(t, 20)
	g.Attempts(t, 20)
}
