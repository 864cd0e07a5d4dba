package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

// The command forgets what a running gateway keeps and says how much it was; who
// has asked it before is asked again.
func TestTheCommandForgetsAnswers(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a, "response_cache: {ttl: 1h}"))
	cached := func(model string, headers ...string) string {
		t.Helper()
		answer := g.Post(t, strings.Replace(apptest.ChatBody, `"chat"`, `"`+model+`"`, 1), headers...)
		if answer.Status != 200 {
			t.Errorf("%s: status %d, want 200", model, answer.Status)
		}
		return answer.Header.Get("X-Breakwater-Cache")
	}
	ask := func(model, want string) {
		t.Helper()
		if had := cached(model); had != want {
			t.Errorf("%s: cache %q, want %q", model, had, want)
		}
	}
	clears := func(exit int, stdout, stderr string, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		got := run(append([]string{"cache", "clear", "--url", g.AdminURL}, args...), streams{Out: &out, Err: &errs})
		if got != exit || out.String() != stdout || !strings.Contains(errs.String(), stderr) || (stderr == "") != (errs.Len() == 0) {
			t.Errorf("%v: exit %d, stdout %q, stderr %q, want %d, %q and %q", args, got, &out, &errs, exit, stdout, stderr)
		}
	}
	for _, model := range []string{"chat", "alpha/m1"} {
		if had := cached(model, "X-Breakwater-Cache", "refresh"); had != "miss" { // which waits until it is kept
			t.Errorf("%s: cache %q, want a miss", model, had)
		}
		ask(model, "hit")
	}

	clears(exitFailed, "", `"other"`, "--configuration", "other")
	clears(exitDone, "1 answer(s) forgotten\n", "", "--configuration", "chat")
	ask("alpha/m1", "hit")
	ask("chat", "miss")
	<-time.After(1500 * time.Millisecond)           // what is asked for within a second behind a clear is not kept
	cached("chat", "X-Breakwater-Cache", "refresh") // which waits until it is
	ask("chat", "hit")
	clears(exitDone, "2 answer(s) forgotten\n", "")
	clears(exitDone, "0 answer(s) forgotten\n", "")
	ask("alpha/m1", "miss")
}
