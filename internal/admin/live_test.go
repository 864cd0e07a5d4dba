package admin

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/web/templates"
)

// patience bounds every wait of a test on something that should happen.
const patience = 2 * time.Minute

// message is one event as a page receives it.
type message struct{ name, data string }

// page is an open live page, as the test drives it.
type page struct {
	t       *testing.T
	lines   *bufio.Scanner
	respond *http.Response
	close   context.CancelFunc
}

// open asks for the live stream of the overview.
func open(t *testing.T, server *httptest.Server) *page {
	t.Helper()
	return openAt(t, server, livePath)
}

// openAt asks for the live stream of some page.
func openAt(t *testing.T, server *httptest.Server, path string) *page {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	p := &page{t: t, lines: bufio.NewScanner(response.Body), respond: response, close: cancel}
	p.lines.Buffer(nil, 1<<20)
	t.Cleanup(func() {
		cancel()
		response.Body.Close()
	})
	return p
}

// next reads one event; false when the stream has ended.
func (p *page) next() (message, bool) {
	p.t.Helper()
	var m message
	var data []string
	for p.lines.Scan() {
		field, value, _ := strings.Cut(p.lines.Text(), ": ")
		switch field {
		case "event":
			m.name = value
		case "data":
			data = append(data, value)
		case "":
			if m.name != "" {
				m.data = strings.Join(data, "\n")
				return m, true
			}
		}
	}
	return message{}, false
}

// await reads events until one of the part comes.
func (p *page) await(part string) string {
	p.t.Helper()
	for {
		m, ok := p.next()
		if !ok {
			p.t.Fatalf("the stream ended before a part %q came: %v", part, p.lines.Err())
		}
		if m.name == part {
			return m.data
		}
	}
}

func TestALivePageFirstHearsEverything(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, incident(time.Now()).pages()))
	if got := p.respond.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type %q", got)
	}
	var got []string
	for range 6 {
		m, ok := p.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		got = append(got, m.name)
	}
	want := []string{templates.PartSummary, templates.PartAttention, templates.PartCallers, templates.PartTargets, templates.PartClock, templates.PartRuns}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

func TestACircuitEventReachesALivePage(t *testing.T) {
	t.Parallel()
	w := incident(time.Now())
	pages := w.pages()
	p := open(t, serve(t, pages))
	p.await(templates.PartRuns)

	w.change(func(w *world) { w.circuits[0].State = breaker.Open })
	pages.CircuitEvent(breaker.Event{})
	if got := p.await(templates.PartSummary); !strings.Contains(got, "2 circuits open") {
		t.Errorf("summary after the event: %s", got)
	}
}

func TestALivePageIsDrawnAnewOnItsBeatToo(t *testing.T) {
	t.Parallel()
	w := incident(time.Now())
	p := open(t, serve(t, w.pages(func(d *Deps) { d.Refresh = time.Millisecond })))
	p.await(templates.PartRuns)
	w.change(func(w *world) { w.alarms = nil })
	if got := p.await(templates.PartSummary); strings.Contains(got, "alarm") {
		t.Errorf("summary after the alarm: %s", got)
	}
}

func TestWhatHasNotChangedIsNotSentAgain(t *testing.T) {
	t.Parallel()
	w := &world{report: report(time.Minute, figures("alpha", "m1", "r1", 0, 0, 0, 0, 0, 0))}
	pages := w.pages()
	p := open(t, serve(t, pages))
	p.await(templates.PartRuns)
	w.change(func(w *world) { w.broken = errors.New("away") })
	pages.CircuitEvent(breaker.Event{})
	for {
		m, ok := p.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		if m.name == templates.PartRuns {
			return
		}
		if m.name != templates.PartClock {
			t.Errorf("%s was sent again", m.name)
		}
	}
}

func TestUntrustedLineEndsStayInsideTheirEvent(t *testing.T) {
	t.Parallel()
	w := incident(time.Now())
	w.runs[0].RequestedModel = "a\r\n\r\nevent: summary\rdata: owned\n\nb"
	p := open(t, serve(t, w.pages()))
	p.await(templates.PartClock)
	if got := p.await(templates.PartRuns); !strings.Contains(got, "a\n\nevent: summary\ndata: owned\n\nb") {
		t.Errorf("the name of the model did not come whole:\n%s", got)
	}
}

func TestLivePagesAreBounded(t *testing.T) {
	t.Parallel()
	server := serve(t, incident(time.Now()).pages(func(d *Deps) { d.MaxLive = 1 }))
	first := open(t, server)
	first.await(templates.PartRuns)

	second := open(t, server)
	if second.respond.StatusCode != http.StatusServiceUnavailable || second.respond.Header.Get("Retry-After") == "" {
		t.Errorf("a page too many: status %d, Retry-After %q", second.respond.StatusCode, second.respond.Header.Get("Retry-After"))
	}
	if page := document(t, server, "/"); page.Find("table.targets").Length() != 1 {
		t.Error("the page itself must still be served")
	}

	first.close()
	deadline := time.Now().Add(patience)
	for open(t, server).respond.StatusCode != http.StatusOK {
		if time.Now().After(deadline) {
			t.Fatal("the place of a page that went away is not free again")
		}
	}
}

func TestStopEndsEveryLivePage(t *testing.T) {
	t.Parallel()
	pages := incident(time.Now()).pages()
	server := serve(t, pages)
	open1, open2 := open(t, server), open(t, server)
	open1.await(templates.PartRuns)
	open2.await(templates.PartRuns)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 2 { // it may be called twice
		if err := pages.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []*page{open1, open2} {
		for {
			if _, ok := p.next(); !ok {
				break
			}
		}
		if err := p.lines.Err(); err != nil {
			t.Errorf("a page was cut off instead of ended: %v", err)
		}
	}
	if late := open(t, server); late.respond.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a page after the end: status %d", late.respond.StatusCode)
	}
}

func TestStopDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	s := newStream(1)
	l, err := s.join()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stop with a page that stays: %v", err)
	}
	s.leave(l)
	if err := s.stop(t.Context()); err != nil {
		t.Errorf("stop after it has left: %v", err)
	}
}

// stalled is a connection whose client does not read.
type stalled struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (s *stalled) SetWriteDeadline(t time.Time) error { s.deadline = t; return nil }
func (s *stalled) Write([]byte) (int, error)          { return 0, os.ErrDeadlineExceeded }

func TestAPageThatDoesNotReadIsLetGo(t *testing.T) {
	t.Parallel()
	pages := incident(time.Now()).pages()
	e := echo.New()
	pages.Register(e.Group(""))
	client := &stalled{ResponseRecorder: httptest.NewRecorder()}
	e.ServeHTTP(client, httptest.NewRequest(http.MethodGet, livePath, nil)) // returns
	if left := time.Until(client.deadline); left <= 0 || left > writeTimeout {
		t.Errorf("the write was bound to %v, want %v", left, writeTimeout)
	}
	if err := pages.Stop(t.Context()); err != nil {
		t.Errorf("the page has not left: %v", err)
	}
}
