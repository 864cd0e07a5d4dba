package api

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

func TestSayRateLimits(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		standings []llm.Standing
		want      http.Header
	}{
		"none": {nil, http.Header{}},
		"requests and tokens": {
			[]llm.Standing{
				{Limit: llm.LimitRequestsPerMinute, Allowed: 100, Remaining: 50, Resets: 29_500 * time.Millisecond},
				{Limit: llm.LimitTokensPerMinute, Allowed: 60_000, Remaining: 0, Resets: time.Minute},
			},
			http.Header{
				"X-Ratelimit-Limit-Requests": {"100"}, "X-Ratelimit-Remaining-Requests": {"50"}, "X-Ratelimit-Reset-Requests": {"29.5s"},
				"X-Ratelimit-Limit-Tokens": {"60000"}, "X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"1m0s"},
				"Ratelimit-Policy": {`"requests";q=100;w=60;qu="requests", "tokens";q=60000;w=60;qu="tokens"`},
				"Ratelimit":        {`"requests";r=50;t=30, "tokens";r=0;t=60`},
			},
		},
		"calls at once": {
			[]llm.Standing{{Limit: llm.LimitConcurrent, Allowed: 8, Remaining: 3}},
			http.Header{"Ratelimit-Policy": {`"concurrent";q=8;qu="concurrent-requests"`}, "Ratelimit": {`"concurrent";r=3`}},
		},
		"of two alike the tighter": {
			[]llm.Standing{
				{Limit: llm.LimitRequestsPerMinute, Allowed: 10, Remaining: 9},
				{Limit: llm.LimitRequestsPerMinute, Allowed: 1000, Remaining: 2, Resets: time.Second},
			},
			http.Header{
				"X-Ratelimit-Limit-Requests": {"1000"}, "X-Ratelimit-Remaining-Requests": {"2"}, "X-Ratelimit-Reset-Requests": {"1s"},
				"Ratelimit-Policy": {`"requests";q=1000;w=60;qu="requests"`}, "Ratelimit": {`"requests";r=2;t=1`},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := http.Header{}
			sayRateLimits(got, tt.standings)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}
