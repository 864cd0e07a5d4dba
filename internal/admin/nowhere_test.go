package admin

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
)

func TestAMistypedPageLeadsOn(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.RouteNotFound("/*", (&world{}).pages().Nowhere)
	server := httptest.NewServer(e)
	defer server.Close()
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for name, test := range map[string]struct {
		method, path, accept string
		page                 bool
	}{
		"a person":            {http.MethodGet, "/limitz", browser, true},
		"below a page":        {http.MethodGet, "/limits/", browser, true},
		"nearly the API":      {http.MethodGet, "/apis", browser, true},
		"a program":           {http.MethodGet, "/limitz", "*/*", false},
		"says nothing":        {http.MethodGet, "/limitz", "", false},
		"the API":             {http.MethodGet, "/api/v1/circuitz", browser, false},
		"the root of the API": {http.MethodGet, "/api", browser, false},
		"a form":              {http.MethodPost, "/limitz", browser, false},
	} {
		request, err := http.NewRequestWithContext(t.Context(), test.method, server.URL+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", test.accept)
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d, %v", name, response.StatusCode, err)
		}
		page := strings.Contains(string(body), "<h1>There is no such page</h1>") && strings.Contains(string(body), `<a href="/">`)
		if page != test.page || page && response.Header.Get("Content-Security-Policy") != policy {
			t.Errorf("%s: a page %t, want %t:\n%s", name, page, test.page, body)
		}
	}
}
