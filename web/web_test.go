package web

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func get(t *testing.T, files *Files, method, url string) *http.Response {
	t.Helper()
	recorder := httptest.NewRecorder()
	files.ServeHTTP(recorder, httptest.NewRequest(method, url, nil))
	return recorder.Result()
}

func TestFilesAreKeptForEverUnderANameWithTheirHash(t *testing.T) {
	t.Parallel()
	files := New()
	hashed := regexp.MustCompile(`^/static/[a-z]+(\.min)?\.[0-9a-f]{16}\.(css|js|svg)$`)
	for name, contentType := range map[string]string{
		"admin.css":   "text/css; charset=utf-8",
		"live.js":     "text/javascript; charset=utf-8",
		"htmx.min.js": "text/javascript; charset=utf-8",
		"sse.min.js":  "text/javascript; charset=utf-8",
		"icon.svg":    "image/svg+xml",
	} {
		url := files.URL(name)
		if !hashed.MatchString(url) {
			t.Errorf("URL(%s) = %s, want a name that matches %s", name, url, hashed)
		}
		response := get(t, files, http.MethodGet, url)
		if response.StatusCode != http.StatusOK {
			t.Errorf("GET %s: status %d", url, response.StatusCode)
		}
		if got := response.Header.Get("Content-Type"); got != contentType {
			t.Errorf("GET %s: Content-Type %q, want %q", url, got, contentType)
		}
		if got, want := response.Header.Get("Cache-Control"), "public, max-age=31536000, immutable"; got != want {
			t.Errorf("GET %s: Cache-Control %q, want %q", url, got, want)
		}
	}
}

func TestOnlyPresentNamesAreServed(t *testing.T) {
	t.Parallel()
	files := New()
	for _, url := range []string{
		"/static/admin.css",                      // without its hash
		"/static/admin.0123456789abcdef.css",     // of another version
		"/static/LICENSE",                        // lies beside, is not served
		"/static/vendor/htmx.org-2.0.11/LICENSE", //
		"/static/../web.go",                      //
		strings.TrimSuffix(files.URL("live.js"), "s"),
	} {
		response := get(t, files, http.MethodGet, url)
		if response.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s: status %d, want 404", url, response.StatusCode)
		}
		if got := response.Header.Get("Cache-Control"); strings.Contains(got, "immutable") {
			t.Errorf("GET %s: a 404 must not be kept: Cache-Control %q", url, got)
		}
	}
}

func TestAChangedFileHasAnotherName(t *testing.T) {
	t.Parallel()
	url := func(content string) string {
		files, err := read(fstest.MapFS{"static/a.css": {Data: []byte(content)}})
		if err != nil {
			t.Fatal(err)
		}
		return files.URL("a.css")
	}
	if url("a{}") == url("b{}") {
		t.Error("two contents have one name")
	}
}

func TestTwoFilesOfOneNameAreRefused(t *testing.T) {
	t.Parallel()
	_, err := read(fstest.MapFS{"x/a.css": {Data: []byte("a{}")}, "y/a.css": {Data: []byte("b{}")}})
	if err == nil {
		t.Error("read took two files named a.css")
	}
}

func TestHeadSendsNoBody(t *testing.T) {
	t.Parallel()
	files := New()
	response := get(t, files, http.MethodHead, files.URL("live.js"))
	if response.ContentLength == 0 || response.StatusCode != http.StatusOK {
		t.Errorf("HEAD: status %d, length %d", response.StatusCode, response.ContentLength)
	}
}
