package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// The headers of the data plane, in the spelling that net/http keeps them in.
const (
	headerRequestID      = "X-Request-Id"
	headerRequestIDShort = "Request-Id"
	headerCorrelationID  = "X-Correlation-Id"
	headerTraceparent    = "Traceparent"
	headerTimeout        = "X-Breakwater-Timeout"
	headerAttempts       = "X-Breakwater-Attempts"
	headerTarget         = "X-Breakwater-Target"
	headerDegraded       = "X-Breakwater-Degraded"
	headerCache          = "X-Breakwater-Cache"
	headerIdempotencyKey = "Idempotency-Key"
	headerReplayed       = "Idempotent-Replayed"
	headerOriginal       = "X-Original-Request-Id"
	headerRetryAfter     = "Retry-After"
	headerRetryAfterMS   = "Retry-After-Ms"
	headerShouldRetry    = "X-Should-Retry"
)

// sayServed says how many upstreams were reached, and which target answered; a
// zero target is left out.
func sayServed(header http.Header, attempts int, target llm.Target) {
	header.Set(headerAttempts, strconv.Itoa(attempts))
	if !target.IsZero() {
		header.Set(headerTarget, target.Key())
	}
}

// sayDegraded says what the answer had to do without.
func sayDegraded(header http.Header, d llm.Degradation) {
	if d != "" {
		header.Set(headerDegraded, string(d))
	}
}

// sayCache says what the response cache had, if it was asked.
func sayCache(header http.Header, had llm.CacheResult) {
	if had != "" {
		header.Set(headerCache, string(had))
	}
}

// cacheControl reads X-Breakwater-Cache; absent is empty.
func cacheControl(header http.Header) (llm.CacheControl, error) {
	values := header.Values(headerCache)
	if len(values) == 0 {
		return "", nil
	}
	switch control := llm.CacheControl(values[0]); {
	case len(values) > 1:
		return "", invalidValue(headerCache, "The header X-Breakwater-Cache is given more than once; send one.")
	case control == llm.CacheNoStore, control == llm.CacheRefresh:
		return control, nil
	default:
		return "", invalidValue(headerCache, "The header X-Breakwater-Cache must be no-store or refresh; leave it out to have the cache decide.")
	}
}

// patience is the longest wait that a client library is left to sit out by
// itself; over it, some sleep the whole time while others hammer.
const patience = 10 * time.Second

// sayRetry tells clients whether and when to try again. The wait is the truth,
// rounded up, without jitter; a zero wait is not known. Client libraries retry
// by status, so where a retry cannot help they are told not to.
func sayRetry(header http.Header, status int, wait time.Duration) {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		sayWait(header, wait)
		if wait <= 0 || wait > patience {
			header.Set(headerShouldRetry, "false")
		}
	case http.StatusConflict:
		sayWait(header, wait)
	case http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusUnprocessableEntity, http.StatusBadGateway, http.StatusGatewayTimeout:
		header.Set(headerShouldRetry, "false")
	}
}

func sayWait(header http.Header, wait time.Duration) {
	if wait <= 0 {
		return
	}
	header.Set(headerRetryAfter, strconv.FormatInt(roundUp(wait, time.Second), 10))
	header.Set(headerRetryAfterMS, strconv.FormatInt(roundUp(wait, time.Millisecond), 10))
}

// roundUp counts the units that cover d.
func roundUp(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }

// callerTimeout reads X-Breakwater-Timeout; absent is 0.
func callerTimeout(header http.Header) (time.Duration, error) {
	values := header.Values(headerTimeout)
	if len(values) > 1 {
		return 0, invalidValue(headerTimeout, "The header X-Breakwater-Timeout is given more than once; send one.")
	}
	value := header.Get(headerTimeout)
	if value == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return 0, invalidValue(headerTimeout, "The header X-Breakwater-Timeout must be a positive duration such as 30s or 1m30s.")
	}
	return d, nil
}
