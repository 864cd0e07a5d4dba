package rig

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestScrape(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.Error(w, "not here", http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte("# HELP a_total Text, with 7.\n# TYPE a_total counter\n" +
			"a_total{kind=\"x\",end=\"well\"} 3\na_total{kind=\"x\",end=\"ill\"} 4\na_total_more 50\nb 1.5e+06\nc NaN\n"))
	}))
	t.Cleanup(server.Close)

	got, err := Scrape(t.Context(), server.URL+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if got["b"] != 1.5e6 || len(got) != 5 {
		t.Errorf("series %v", got)
	}
	if sum := got.Sum("a_total"); sum != 7 {
		t.Errorf("a_total is %v, want 7", sum)
	}
	if sum := got.Sum("a_total", `kind="x"`, `end="ill"`); sum != 4 {
		t.Errorf("a_total that ended ill is %v, want 4", sum)
	}
	if _, err := Scrape(t.Context(), server.URL+"/elsewhere"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("error %v, want one with the status", err)
	}
	if _, err := readSeries("<html>"); err == nil {
		t.Error("no error for what is no metric")
	}
}
