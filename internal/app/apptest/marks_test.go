package apptest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A secret is found however it is written, in whole or in part; what is none is
// not.
func TestMarksAreFoundInEveryForm(t *testing.T) {
	t.Parallel()
	var marks Marks
	secret, other := marks.Plant("key", `sk-"%s&</+ `), marks.Plant("other", "pw-%s")
	quoted, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(secret))
	tests := map[string]struct{ text, form string }{
		"plain":                 {secret, "plain"},
		"its beginning":         {secret[:len(secret)-14], "plain"},
		"its end":               {secret[14:], "plain"},
		"a header's name":       {fmt.Sprintf("x-%s: 1", strings.ToLower(secret[4:20])), "plain"},
		"JSON":                  {string(quoted), "plain"},
		"a URL":                 {"/v1?key=" + url.QueryEscape(secret), "plain"},
		"letter by letter":      {spelled(secret, `\u%04x`), "escaped"},
		"byte by byte":          {spelled(secret, "%%%02X"), "escaped"},
		"hex":                   {`\x` + hex.EncodeToString([]byte(secret)), "hex"},
		"base64":                {base64.StdEncoding.EncodeToString([]byte(secret)), "base64"},
		"base64 behind one":     {base64.StdEncoding.EncodeToString([]byte("u" + secret)), "base64"},
		"base64 behind two":     {base64.URLEncoding.EncodeToString([]byte("u:" + secret)), "base64"},
		"a digest":              {fmt.Sprintf("%x", sum), "digest"},
		"a fingerprint":         {hex.EncodeToString(sum[:])[:12], "digest"},
		"a digest in base64":    {base64.RawURLEncoding.EncodeToString(sum[:]), "digest"},
		"a digest as it is":     {string(sum[:]), "digest"},
		"something else":        {"sk-" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ", ""},
		"a short prefix is not": {secret[:10], ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			for _, leak := range marks.Leaks("before " + tt.text + " after") {
				got += leak.Secret + " " + leak.Form
			}
			want := ""
			if tt.form != "" {
				want = "key " + tt.form
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
	if got := marks.Leaks(secret + other); len(got) != 2 {
		t.Errorf("found %v, want both secrets", got)
	}
}
