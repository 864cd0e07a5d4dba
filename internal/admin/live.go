package admin

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/web/templates"
)

// calm is the least time between two looks of a live page, so that a storm of
// events does not become a storm of drawing.
const calm = 200 * time.Millisecond

// live serves GET /live: the parts of the overview as events, or, with a key as
// parameter circuit, those of a circuit's page, each when it is not as it was
// sent last. It ends when the page goes away, or at Stop.
func (p *Pages) live(c echo.Context) error {
	shown, err := p.shown(c.QueryParam("circuit"))
	if err != nil {
		return err
	}
	listener, err := p.stream.join()
	if err != nil {
		return notLive(c, err)
	}
	defer p.stream.leave(listener)

	ctx := c.Request().Context()
	feed := &feed{pages: p, view: shown, out: openEvents(c.Response()), sent: map[string][]byte{}}
	beat := time.NewTicker(p.Refresh)
	defer beat.Stop()
	for {
		if err := feed.look(ctx); err != nil {
			p.Log.Debug("a live page has ended", "error", err)
			return nil
		}
		if !p.rest(ctx) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.stream.ending:
			return nil
		case <-beat.C:
		case <-listener.woken:
		}
	}
}

// rest waits until the page may look again; false when it should go.
func (p *Pages) rest(ctx context.Context) bool {
	timer := time.NewTimer(calm)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-p.stream.ending:
		return false
	}
}

// notLive refuses a page that would be live. It goes on showing what it has,
// says so, and asks again.
func notLive(c echo.Context, err error) error {
	f := &fault{status: http.StatusServiceUnavailable, heading: "This page cannot be live right now"}
	c.Response().Header().Set("Retry-After", "5")
	switch {
	case errors.Is(err, errCrowded):
		f.text = "As many pages are live as may be. Close one, or reload this one to see what is true now."
	default:
		f.text = "The gateway is shutting down."
	}
	return f
}

// feed is what one live page is sent.
type feed struct {
	pages *Pages
	view  view
	out   *events
	sent  map[string][]byte // part → as it was sent last
}

// look sends what has changed. What needs the database goes last, so that a
// slow one does not hold up what is known without it.
func (f *feed) look(ctx context.Context) error {
	seen := f.pages.look(time.Now())
	known, err := f.view.known(seen)
	if err != nil {
		return err
	}
	if err := f.send(ctx, append(known, part{templates.PartClock, templates.Clock(clock(seen.now, seen.now))})...); err != nil {
		return err
	}
	return f.send(ctx, f.view.recorded(ctx, seen))
}

// view draws the parts of one page: those that are known at once, which fail
// when what the page is about is gone, and the one that the database is asked
// for.
type view struct {
	known    func(reading) ([]part, error)
	recorded func(context.Context, reading) part
}

// shown is the view of the circuit with a key, or without one the overview.
func (p *Pages) shown(circuit string) (view, error) {
	if circuit == "" {
		return view{known: overviewParts, recorded: p.runsPart}, nil
	}
	t, err := p.look(time.Now()).named(circuit)
	if err != nil {
		return view{}, err
	}
	return view{
		known:    func(seen reading) ([]part, error) { return p.circuitParts(seen, t.Key()) },
		recorded: func(ctx context.Context, seen reading) part { return p.historyPart(ctx, seen, t) },
	}, nil
}

// part is a part of a page, freshly drawn.
type part struct {
	name      string
	component templ.Component
}

func (f *feed) send(ctx context.Context, parts ...part) error {
	for _, part := range parts {
		drawn, err := draw(ctx, part.component)
		if err != nil {
			return err
		}
		last, known := f.sent[part.name]
		if known && bytes.Equal(drawn, last) {
			continue
		}
		f.out.add(part.name, drawn)
		f.sent[part.name] = drawn
	}
	return f.out.flush()
}
