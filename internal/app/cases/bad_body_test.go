package cases

import (
	"bytes"
	"compress/gzip"
	"strconv"
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

var badBody = theme{
	"BOD_01": htmlPageBecomesAnError,
	"BOD_03": errorUnderA200MovesOn,
	"BOD_05": emptyAnswerMovesOn,
	"BOD_07": halfABodyIsNoAnswer,
	"BOD_09": compressedAnswerComesPlain,
}

func htmlPageBecomesAnError(t *testing.T) {
	page := apptest.Body(502, "text/html", "<!DOCTYPE html><html><body>"+strings.Repeat("Bad gateway ", 20<<10/12)+"</body></html>")
	t.Run("with_another_target", func(t *testing.T) {
		t.Parallel()
		a := apptest.NewUpstream(t, page)
		b := apptest.NewUpstream(t, apptest.OK())
		g := apptest.Start(t, apptest.TwoTargets(a, b))

		served(t, g.Post(t, apptest.ChatBody), circuitB)
		equal(t, "failures of A", g.Circuit(t, circuitA).Failures, 1)
	})
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		a := apptest.NewUpstream(t, page)
		g := apptest.Start(t, apptest.OneTarget(a))

		answer := g.Post(t, apptest.ChatBody)
		refused(t, answer, 502, "upstream_error", "upstream_failed")
		if strings.Contains(answer.Body, "html") || strings.Contains(answer.Body, "Bad gateway") {
			t.Errorf("the page reaches the client: %q", answer.Body)
		}
		equal(t, "failures of A", g.Circuit(t, circuitA).Failures, 1)
	})
}

func errorUnderA200MovesOn(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.JSON(200, `{"error":{"message":"x","code":503},"choices":null}`))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	served(t, g.Post(t, apptest.ChatBody), circuitB)

	rows(t, "attempts", g.Attempts(t, 2), failed("alpha", "server_error", "upstream_status"), succeeded("beta"))
	equal(t, "failures of A", g.Circuit(t, circuitA).Failures, 1)
}

func emptyAnswerMovesOn(t *testing.T) {
	for name, tt := range map[string]struct {
		ask   string
		empty apptest.Script
	}{
		"no_body":           {apptest.ChatBody, apptest.JSON(200, "")},
		"no_event":          {apptest.StreamBody, apptest.Stream(": hello\n\n")},
		"only_the_end_mark": {apptest.StreamBody, apptest.Stream(apptest.Done)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := apptest.NewUpstream(t, tt.empty)
			b := apptest.NewUpstream(t, apptest.When(`"stream":true`, apptest.OKStream(), apptest.OK()))
			g := apptest.Start(t, apptest.TwoTargets(a, b))

			answer := g.Post(t, tt.ask)

			equal(t, "status", answer.Status, 200)
			equal(t, "target", answer.Header.Get("X-Breakwater-Target"), circuitB)
			rows(t, "attempts", g.Attempts(t, 2), failed("alpha", "server_error", "empty_body"), succeeded("beta"))
		})
	}
}

func halfABodyIsNoAnswer(t *testing.T) {
	half := apptest.JSON(200, `{"id":"c1","choices":[{"mess`)
	t.Run("with_another_target", func(t *testing.T) {
		t.Parallel()
		a := apptest.NewUpstream(t, half)
		b := apptest.NewUpstream(t, apptest.OK())
		g := apptest.Start(t, apptest.TwoTargets(a, b))

		served(t, g.Post(t, apptest.ChatBody), circuitB)
		rows(t, "attempts", g.Attempts(t, 2), failed("alpha", "server_error", "invalid_body"), succeeded("beta"))
	})
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		a := apptest.NewUpstream(t, half)
		g := apptest.Start(t, apptest.OneTarget(a))

		refused(t, g.Post(t, apptest.ChatBody), 502, "upstream_error", "upstream_failed")
	})
}

func compressedAnswerComesPlain(t *testing.T) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write([]byte(apptest.OKBody)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	a := apptest.NewUpstream(t, apptest.JSON(200, packed.String(),
		"Content-Encoding", "gzip", "Content-Length", strconv.Itoa(packed.Len())))
	g := apptest.Start(t, apptest.OneTarget(a))

	answer := g.Post(t, apptest.ChatBody)

	served(t, answer, circuitA)
	equal(t, "Content-Encoding", answer.Header.Values("Content-Encoding"), nil)
	equal(t, "Content-Length", answer.Header.Get("Content-Length"), strconv.Itoa(len(apptest.OKBody)))
	rows(t, "attempts", g.Attempts(t, 1), apptest.Row{"outcome": "success", "input_tokens": 10, "output_tokens": 2})
}
