package api_test

import (
	"net/http"
	"testing"
)

func TestAnOperatorIsToldWhatIsWrongWithABody(t *testing.T) {
	t.Parallel()
	tests := map[string]string{ // body → what is said of it
		``:                          "it ends before the JSON does",
		`{"mode":`:                  "it ends before the JSON does",
		`{"mode" "ok"}`:             "it is no JSON from byte 8 on",
		"{\"mode\":\"\xff\"}":       "it is no JSON from byte 9 on",
		`{} {}`:                     "it is no JSON from byte 3 on",
		`[]`:                        "it is no object",
		`7`:                         "it is no object",
		`{"speed":1}`:               `there is no member "/speed"`,
		`{"mode":"ok","mode":"ok"}`: `"/mode" is there twice`,
		`{"latency_ms":"1"}`:        `"/latency_ms" is of the wrong kind or out of range`,
		`{"latency_ms":1.5}`:        `"/latency_ms" is of the wrong kind or out of range`,
		`{"status":1e400}`:          `"/status" is of the wrong kind or out of range`,
		`{"mode":{"a":1}}`:          `"/mode" is of the wrong kind or out of range`,
	}
	for body, want := range tests {
		got := setupAdmin(t).do(t, http.MethodPut, "/api/v1/simulated/alpha", body, nil)
		if p := problemOf(t, got.body); got.status != 400 || p.code() != "invalid_json" || p.Message != "The body is not what is expected here: "+want+"." {
			t.Errorf("%s: status %d, %s", body, got.status, p.Message)
		}
	}
}
