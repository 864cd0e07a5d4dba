package api_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// While no key is asked for, a web page in a browser on this machine must
// neither spend money through the data plane nor read its answers.
func TestTheOpenDataPlaneAnswersNoWebPage(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		header http.Header
		want   int
		code   string
	}{
		"no browser":           {nil, 200, ""},
		"another origin":       {http.Header{"Origin": {"https://evil.test"}}, 403, "cross_origin"},
		"another site":         {http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403, "cross_origin"},
		"a rebound host":       {http.Header{"Host": {"evil.test:8080"}}, 421, "misdirected_host"},
		"a rebound own origin": {http.Header{"Host": {"evil.test"}, "Origin": {"http://evil.test"}}, 421, "misdirected_host"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			called := false
			g := setup(t, func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
				called = true
				return answering(`{"ok":true}`)(ctx, call, emit)
			})

			got := g.do(t, http.MethodPost, "/v1/chat/completions", chatBody, tc.header)

			if got.status != tc.want || called != (tc.want == 200) {
				t.Errorf("status %d, called %v, want %d: %s", got.status, called, tc.want, got.body)
			}
			if tc.code != "" && problemOf(t, got.body).code() != tc.code {
				t.Errorf("body %s, want code %s", got.body, tc.code)
			}
			if tc.code != "" && !slices.Contains(api.RefusalCodes(), tc.code) {
				t.Errorf("%s is counted, but not at 0 from the start", tc.code)
			}
		})
	}
}
