package api

import (
	"net/http"
	"strings"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// longestKey is how many characters an idempotency key may have.
const longestKey = 255

// idempotencyKey reads Idempotency-Key; absent is empty. By its draft the value is
// a quoted string, most clients send it bare: both are the same key.
func idempotencyKey(header http.Header) (string, error) {
	values := header.Values(headerIdempotencyKey)
	switch len(values) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", keyInvalid("is given more than once; send one")
	}
	key, whole := unquoted(values[0])
	switch {
	case !whole:
		return "", keyInvalid("begins or ends with a quote that has no counterpart; send the key bare, or in quotes on both sides")
	case key == "":
		return "", keyInvalid("is empty; send a key that is new for every request, such as a UUID, or no such header")
	case len(key) > longestKey:
		return "", keyInvalid("is over 255 characters; send a shorter one, such as a UUID")
	case !visibleASCII(key):
		return "", keyInvalid("holds a space or a character that is not visible ASCII; send a key such as a UUID")
	}
	return key, nil
}

// unquoted takes the quotes off a value that has them, and the backslashes inside
// that protect a quote or another backslash. Returns false when the quotes are not
// whole.
func unquoted(value string) (string, bool) {
	inside, opened := strings.CutPrefix(value, `"`)
	if !opened {
		return value, !strings.HasSuffix(value, `"`)
	}
	var text strings.Builder
	for i := 0; i < len(inside); i++ {
		switch c := inside[i]; {
		case c == '"':
			return text.String(), i == len(inside)-1
		case c == '\\' && i+1 < len(inside):
			i++
			text.WriteByte(inside[i])
		default:
			text.WriteByte(c)
		}
	}
	return "", false
}

// sayReplayed tells the answer of an earlier call from one that was made for this
// request.
func sayReplayed(header http.Header, signals *llm.Signals) {
	if !signals.IdempotentReplay {
		return
	}
	header.Set(headerReplayed, "true")
	if signals.OriginalRun != "" {
		header.Set(headerOriginal, signals.OriginalRun)
	}
}
