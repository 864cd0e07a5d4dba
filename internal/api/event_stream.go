package api

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

const (
	// eventPing is how often a reader hears that the stream is alive.
	eventPing = 15 * time.Second
	// eventWrite is how long a reader may take over what it is sent. It is less
	// than what a shutdown has for all of them.
	eventWrite = 3 * time.Second
)

// streamEvents serves GET /api/v1/events: the circuit events of this process as
// they happen, until the reader or the gateway goes. It needs no database.
func (a *admin) streamEvents(c echo.Context) error {
	q := queryOf(c, "provider", "key")
	r := &reader{provider: q.text("provider"), key: q.text("key")}
	if _, ok := llm.ParseTarget(r.key); r.key != "" && !ok {
		q.fail("key", "A circuit key is provider/model/region.")
	}
	if q.err != nil {
		return q.err
	}
	if err := a.Feed.join(r, c.Request().Header.Get("Last-Event-ID")); err != nil {
		return notFollowed(err, a.Feed.cfg.Readers)
	}
	defer a.Feed.leave(r)
	a.follow(c, r)
	return nil
}

func notFollowed(err error, readers int) error {
	if errors.Is(err, errFeedStopped) {
		return shuttingDown()
	}
	return &fault{row: answers[llm.AnswerSaturated], wait: soon,
		message: fmt.Sprintf("As many readers follow the events as may, %d; close one, or read the history of a circuit.", readers)}
}

// follow sends a reader what it has not been told, each time that there is
// something. A reader that takes too long is let go: it comes back with its
// Last-Event-ID and is told what it has missed.
func (a *admin) follow(c echo.Context, r *reader) {
	stream := openEventStream(c.Response())
	beat := time.NewTicker(eventPing)
	defer beat.Stop()
	note := "retry: 2000\n" // a line before the first event, like a ping
	for {
		pending, more := a.Feed.read(r, []byte(note))
		if err := stream.send(pending); err != nil {
			return
		}
		note = ""
		if more {
			continue
		}
		select {
		case <-r.woken:
		case <-beat.C:
			note = ping
		case <-c.Request().Context().Done():
			return
		case <-a.Feed.ending:
			a.finish(stream, r)
			return
		}
	}
}

// finish sends a reader the rest.
func (a *admin) finish(stream eventStream, r *reader) {
	for more := true; more; {
		var pending []byte
		pending, more = a.Feed.read(r, nil)
		if err := stream.send(pending); err != nil {
			return
		}
	}
}

// eventStream is the gateway's end of a stream of events.
type eventStream struct {
	w       *echo.Response
	control *http.ResponseController
}

func openEventStream(w *echo.Response) eventStream {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // proxies that buffer would hold the events back
	return eventStream{w: w, control: controlOf(w)}
}

func (s eventStream) send(raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(eventWrite))
	if _, err := s.w.Write(raw); err != nil {
		return err
	}
	return s.control.Flush()
}
