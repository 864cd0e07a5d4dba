package pipeline

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// findKey says what the call asks, as whom, and of what. Reports false for a body
// of which that cannot be told.
func (q *question) findKey() bool {
	call := q.call
	body, ok := call.Codec.Canonical(call.Body)
	if !ok {
		return false
	}
	whose := "key:" + call.Caller.KeyID
	if q.policy.Shared {
		whose = "shared"
	}
	what := "configuration:" + call.Configuration
	if call.Configuration == "" {
		what = "target:" + call.RequestedModel
	}
	q.key = llm.KeptKey{Configuration: call.Configuration, Sum: sumOf(whose, string(call.Operation), string(call.Dialect), what, string(body))}
	return true
}

// sumOf tells lists of texts apart that are not the same, wherever one text ends
// and the next begins.
func sumOf(texts ...string) (sum [32]byte) {
	h := sha256.New()
	for _, text := range texts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		h.Write([]byte(text))
	}
	h.Sum(sum[:0])
	return sum
}
