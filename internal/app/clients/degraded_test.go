package clients

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3/option"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

// Whatever a degraded answer says, the official client reads it, whole and as a
// stream.
func TestOpenAIClientReadsADegradedAnswerOfAnyText(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"quotes":      `She said "no", 'no' and \n; {"a": [1]}`,
		"new lines":   "one\ntwo\r\n\n\ndata: three\n\n: four\revent: five\tsix",
		"unicode":     "Grüße, 世界, 👩‍👩‍👧, \u2028\u2029, \u0085, <script>&amp;",
		"an end mark": "[DONE]",
		"a space":     " x ",
		"1 MB":        strings.Repeat("0123456789abcdeé", 60_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quoted, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			body := strings.Replace(apptest.OKBody, `"ok"`, string(quoted), 1)
			section := fmt.Sprintf("configurations:\n  chat:\n    targets: [{provider: alpha, model: m1}]\n    response_cache: {ttl: 1ns}\n    degrade: {stale: 1h, message: %s}\n", quoted)
			upstream := apptest.NewUpstream(t, apptest.Status(500))
			g := apptest.Start(t, apptest.OneTarget(upstream, section, "response_cache: {max_entry: 4MiB}"))
			check := func(what string, shapes ...bool) {
				t.Helper()
				for _, stream := range shapes {
					if got := reads(t, g, stream).Content; got != text {
						t.Errorf("%s, stream %v: %d bytes %.80q, want %d bytes %.80q", what, stream, len(got), got, len(text), text)
					}
				}
			}
			check("the message", false, true)
			upstream.SetScript(apptest.JSON(200, body))
			refresh := option.WithHeader("X-Breakwater-Cache", "refresh") // which comes once it is kept
			if got := reads(t, g, false, refresh).Content; got != text {
				t.Errorf("the model's own: %d bytes %.80q, want %d bytes", len(got), got, len(text))
			}
			upstream.SetScript(apptest.Status(500))
			check("what is past its time", false, true)
			g.AwaitMetric(t, `breakwater_degraded_answers_total{degradation="message"}`, "2")
			g.AwaitMetric(t, `breakwater_degraded_answers_total{degradation="stale"}`, "2")
		})
	}
}
