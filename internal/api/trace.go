package api

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
)

// trace is the part of a W3C trace that the gateway takes part in.
type trace struct {
	id     string // 32 lower-case hex digits, or empty
	parent string // the traceparent an upstream is sent, or empty
}

// traceOf reads the caller's traceparent and continues it under a parent id of
// our own. An absent or invalid one, or more than one, gives no trace: the
// gateway exports no spans, so it starts none.
func traceOf(header http.Header) trace {
	values := header.Values(headerTraceparent)
	if len(values) != 1 {
		return trace{}
	}
	id, flags, ok := parseTraceparent(values[0])
	if !ok {
		return trace{}
	}
	var parent [8]byte
	_, _ = rand.Read(parent[:]) // never fails
	return trace{id: id, parent: "00-" + id + "-" + hex.EncodeToString(parent[:]) + "-" + flags}
}

// parseTraceparent reads `version-traceid-parentid-flags` (W3C Trace Context).
// Of an unknown higher version the first four fields count and only the sampled
// flag is understood.
func parseTraceparent(value string) (id, flags string, ok bool) {
	if len(value) < 55 || value[2] != '-' || value[35] != '-' || value[52] != '-' {
		return "", "", false
	}
	version, id, parent, flags := value[:2], value[3:35], value[36:52], value[53:55]
	if !lowerHex(version) || !lowerHex(id) || !lowerHex(parent) || !lowerHex(flags) {
		return "", "", false
	}
	if zeros(id) || zeros(parent) || version == "ff" {
		return "", "", false
	}
	if version == "00" {
		return id, flags, len(value) == 55
	}
	if len(value) > 55 && value[55] != '-' {
		return "", "", false
	}
	return id, sampledOnly(flags), true
}

func sampledOnly(flags string) string {
	b, _ := hex.DecodeString(flags)
	return hex.EncodeToString([]byte{b[0] & 1})
}

func lowerHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

func zeros(s string) bool { return strings.Trim(s, "0") == "" }
