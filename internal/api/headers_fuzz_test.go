package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

// FuzzHeaders holds whatever a caller may write into the headers that are read to
// a value or a refusal of the caller's own making, which repeats none of it.
func FuzzHeaders(f *testing.F) {
	for _, seed := range []string{
		"", "Bearer", "Bearer ", "Bearer bw_0123456789_" + strings.Repeat("s", 43), "bearer\tbw_", "Basic Og==", "bw__", "bwo_a_b",
		"no-store", "refresh", "REFRESH", "no-store, refresh", "30s", "-1s", "1e400h", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "\x00", "\xff", `"`, `"\`, strings.Repeat("a", 300),
	} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		header := http.Header{}
		for _, name := range []string{"Authorization", "X-Api-Key", headerTimeout, headerTraceparent, headerCorrelationID, headerIdempotencyKey, headerCache} {
			header[name] = []string{one}
		}
		header["Authorization"] = []string{other}
		key, keyErr := givenKey(header)
		timeout, timeoutErr := callerTimeout(header)
		idempotency, idempotencyErr := idempotencyKey(header)
		control, controlErr := cacheControl(header)
		if timeoutErr == nil && timeout < 0 {
			t.Errorf("%q is read as a limit of %v", one, timeout)
		}
		for what, err := range map[string]error{"key": keyErr, "timeout": timeoutErr, "idempotency key": idempotencyErr, "cache": controlErr} {
			var refused *fault
			if err != nil && (!errors.As(err, &refused) || refused.status < 400 || refused.status > 499) {
				t.Errorf("the %s in %q and %q ends in %v, want a refusal of the caller's", what, one, other, err)
			}
			if long := len(one) > 40; long && err != nil && strings.Contains(err.Error(), one) {
				t.Errorf("the refusal of the %s repeats it: %v", what, err)
			}
		}
		if keyErr == nil && !strings.Contains(one+other, key) || strings.TrimSpace(key) != key {
			t.Errorf("%q and %q give the key %q", one, other, key)
		}
		if idempotencyErr == nil && !visibleASCII(idempotency) && one != "" {
			t.Errorf("%q is read as the idempotency key %q", one, idempotency)
		}
		if controlErr == nil && control != "" && string(control) != one {
			t.Errorf("%q is read as the control %q of the cache", one, control)
		}
		if id := correlationID(header); !visibleASCII(id) || len(id) > 128 {
			t.Errorf("%q becomes the correlation id %q", one, id)
		}
		if trace := traceOf(header); strings.ContainsAny(trace.parent, "\r\n ") || len(trace.parent) > 55 {
			t.Errorf("%q is passed on as %q", one, trace.parent)
		}
	})
}
