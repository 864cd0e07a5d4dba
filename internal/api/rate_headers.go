package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// The headers of rate limits: those that client libraries of the dialect know, and
// the two of draft-ietf-httpapi-ratelimit-headers-11.
const (
	headerRateLimit       = "Ratelimit"
	headerRateLimitPolicy = "Ratelimit-Policy"
)

// sayRateLimits says how the rate limits on a call stood when it was admitted.
// Where a caller's and a configuration's limit are of one kind, the one that is
// nearer to its end is told.
func sayRateLimits(header http.Header, standings []llm.Standing) {
	if len(standings) == 0 {
		return
	}
	var policies, rates []string
	for _, s := range tightest(standings) {
		switch s.Limit {
		case llm.LimitRequestsPerMinute:
			sayRate(header, "Requests", s)
			policies = append(policies, fmt.Sprintf(`"requests";q=%d;w=60;qu="requests"`, s.Allowed))
			rates = append(rates, fmt.Sprintf(`"requests";r=%d;t=%d`, s.Remaining, roundUp(s.Resets, time.Second)))
		case llm.LimitTokensPerMinute:
			sayRate(header, "Tokens", s)
			policies = append(policies, fmt.Sprintf(`"tokens";q=%d;w=60;qu="tokens"`, s.Allowed))
			rates = append(rates, fmt.Sprintf(`"tokens";r=%d;t=%d`, s.Remaining, roundUp(s.Resets, time.Second)))
		case llm.LimitConcurrent:
			policies = append(policies, fmt.Sprintf(`"concurrent";q=%d;qu="concurrent-requests"`, s.Allowed))
			rates = append(rates, fmt.Sprintf(`"concurrent";r=%d`, s.Remaining))
		}
	}
	if len(policies) > 0 {
		header.Set(headerRateLimitPolicy, strings.Join(policies, ", "))
		header.Set(headerRateLimit, strings.Join(rates, ", "))
	}
}

// sayRate writes the three headers of one limit of a minute.
func sayRate(header http.Header, unit string, s llm.Standing) {
	header.Set("X-Ratelimit-Limit-"+unit, strconv.FormatInt(s.Allowed, 10))
	header.Set("X-Ratelimit-Remaining-"+unit, strconv.FormatInt(s.Remaining, 10))
	header.Set("X-Ratelimit-Reset-"+unit, max(s.Resets, 0).Round(time.Millisecond).String())
}

// tightest leaves one standing of each limit, in their order: the one of which
// least is left.
func tightest(standings []llm.Standing) []llm.Standing {
	var kept []llm.Standing
	for _, name := range llm.LimitNames() {
		var least *llm.Standing
		for i := range standings {
			if s := &standings[i]; s.Limit == name && (least == nil || s.Remaining < least.Remaining) {
				least = s
			}
		}
		if least != nil {
			kept = append(kept, *least)
		}
	}
	return kept
}
