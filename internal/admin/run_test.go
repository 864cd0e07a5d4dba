package admin

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func TestEveryRunLeadsToItsAttempts(t *testing.T) {
	t.Parallel()
	server := serve(t, incident(time.Now()).pages())
	link, ok := document(t, server, "/").Find("table.runs tbody a").First().Attr("href")
	if !ok {
		t.Fatal("the first run has no link")
	}
	page := document(t, server, link)

	var got [][]string
	for _, row := range page.Find("table.attempts tbody tr").EachIter() {
		cells := texts(row.Children())
		got = append(got, append(cells[:6], cells[7])) // without the time of day
	}
	want := [][]string{
		{"1", "openai/gpt-4.1-mini/global", "refused", "circuit_open", "–", "open", "–"},
		{"2", "anthropic/claude-sonnet-4-5/eu", "success", "", "200", "closed", "1,180 ms"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	if got, want := text(page.Find(".banner p")), "Success with status 200 after 1,240 ms."; got != want {
		t.Errorf("summary %q, want %q", got, want)
	}
}

func TestWhatCannotBeShownIsExplained(t *testing.T) {
	t.Parallel()
	known := incident(time.Now())
	away := incident(time.Now())
	away.broken = errors.New("dial tcp 10.1.2.3:5432: connection refused")
	for name, test := range map[string]struct {
		world  *world
		path   string
		status int
		want   string
	}{
		"no such run": {known, "/runs/" + uuid.Nil.String(), http.StatusNotFound, "There is no such run"},
		"no run id":   {known, "/runs/latest", http.StatusNotFound, "There is no such run"},
		"no database": {away, "/runs/" + away.runs[0].RunID.String(), http.StatusServiceUnavailable, "Runs cannot be read right now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response, body := get(t, serve(t, test.world.pages()), test.path)
			if response.StatusCode != test.status {
				t.Errorf("status %d, want %d", response.StatusCode, test.status)
			}
			if !strings.Contains(body, "<h1>"+test.want+"</h1>") || !strings.Contains(body, "</html>") {
				t.Errorf("the page does not say %q as a whole page:\n%s", test.want, body)
			}
			if strings.Contains(body, "10.1.2.3") {
				t.Error("the page tells an address of the inside")
			}
		})
	}
}
