package api

import (
	"net/http"
	"strings"
	"testing"
)

func FuzzIdempotencyKey(f *testing.F) {
	for _, seed := range []string{"a", `"a"`, `"a\"`, `\`, `"`, `"\\"`, "a b", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := idempotencyKey(http.Header{headerIdempotencyKey: {value}})
		if (key == "") == (err == nil) || len(key) > 255 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("%q is read as %q, %v", value, key, err)
		}
	})
}
