package api

import (
	"net/http"
	"strings"
	"testing"
)

func TestTraceparentIsContinuedOrIgnored(t *testing.T) {
	t.Parallel()
	const id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	tests := map[string]struct {
		values    []string
		wantID    string
		wantFlags string
	}{
		"sampled":                     {[]string{"00-" + id + "-" + parent + "-01"}, id, "01"},
		"not sampled":                 {[]string{"00-" + id + "-" + parent + "-00"}, id, "00"},
		"a higher version":            {[]string{"cc-" + id + "-" + parent + "-03-more"}, id, "01"},
		"a higher version, glued":     {[]string{"cc-" + id + "-" + parent + "-03more"}, "", ""},
		"absent":                      {nil, "", ""},
		"given twice":                 {[]string{"00-" + id + "-" + parent + "-01", "00-" + id + "-" + parent + "-01"}, "", ""},
		"upper case":                  {[]string{"00-" + strings.ToUpper(id) + "-" + parent + "-01"}, "", ""},
		"a trace id of zeros":         {[]string{"00-" + strings.Repeat("0", 32) + "-" + parent + "-01"}, "", ""},
		"a parent id of zeros":        {[]string{"00-" + id + "-" + strings.Repeat("0", 16) + "-01"}, "", ""},
		"version ff":                  {[]string{"ff-" + id + "-" + parent + "-01"}, "", ""},
		"version 00 with more fields": {[]string{"00-" + id + "-" + parent + "-01-more"}, "", ""},
		"too short":                   {[]string{"00-" + id + "-" + parent}, "", ""},
		"no hex":                      {[]string{"00-" + strings.Repeat("g", 32) + "-" + parent + "-01"}, "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := traceOf(http.Header{headerTraceparent: tc.values})
			if got.id != tc.wantID {
				t.Fatalf("trace id %q, want %q", got.id, tc.wantID)
			}
			if tc.wantID == "" {
				if got.parent != "" {
					t.Errorf("an upstream would be sent %q, want nothing", got.parent)
				}
				return
			}
			again, flags, ok := parseTraceparent(got.parent)
			if !ok || again != id || flags != tc.wantFlags || strings.Contains(got.parent, parent) {
				t.Errorf("an upstream is sent %q; want the trace, a parent id of our own and flags %s", got.parent, tc.wantFlags)
			}
		})
	}
}
