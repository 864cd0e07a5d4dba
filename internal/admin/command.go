package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/web/templates"
)

const (
	// maxForm bounds what is read of a form.
	maxForm = 16 << 10
	// longestReason is how many characters a reason may have.
	longestReason = 500
)

// term is for how long a state can be set.
type term struct {
	value string
	lasts time.Duration // 0: until it is ended
	text  string
}

// terms are those that are offered, the first unless another is chosen.
var terms = []term{
	{"0", 0, "Until an operator ends it"},
	{"10m", 10 * time.Minute, "10 minutes"},
	{"30m", 30 * time.Minute, "30 minutes"},
	{"1h", time.Hour, "1 hour"},
	{"4h", 4 * time.Hour, "4 hours"},
	{"24h", 24 * time.Hour, "1 day"},
	{"168h", 7 * 24 * time.Hour, "1 week"},
}

// order is a command as it was typed, with what is wrong about it.
type order struct {
	command
	reason, lasts           string
	reasonFault, lastsFault string // what is wrong with each; empty when nothing is
	trouble                 string
}

// askCommand serves GET /circuits/{key}/{action}: what a command would do, and
// the form that gives it. Nothing changes.
func (p *Pages) askCommand(c echo.Context) error {
	seen := p.look(time.Now())
	t, o, err := seen.ordered(c)
	if err != nil {
		return err
	}
	if t.held() && o.becomes() == t.circuit.State {
		o.reason = t.circuit.Note
	}
	return p.sendCommand(c, http.StatusOK, seen, t, o)
}

// command serves POST /circuits/{key}/{action}: it gives the command and leads
// back to the circuit, or to the form as it was filled in.
func (p *Pages) command(c echo.Context) error {
	seen := p.look(time.Now())
	t, o, err := seen.ordered(c)
	if err != nil {
		return err
	}
	if err := readForm(c); err != nil {
		return err
	}
	given, ok := o.read(c.Request().PostForm)
	if !ok {
		return p.sendCommand(c, http.StatusUnprocessableEntity, seen, t, o)
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), readTimeout)
	defer cancel()
	_, saved, err := p.Steering.Command(ctx, t.Key(), given)
	if err != nil {
		p.Log.Warn("a circuit could not be commanded", "circuit", t.Key(), "action", string(given.Action), "error", err)
		o.trouble = "This could not be done; the log says why. The circuit is as it is shown here."
		return p.sendCommand(c, http.StatusInternalServerError, p.look(time.Now()), t, o)
	}
	to := circuitURL(t.Key())
	if !saved {
		to += "?saved=false"
	}
	return c.Redirect(http.StatusSeeOther, to)
}

// ordered finds the target and the command that a path names.
func (r reading) ordered(c echo.Context) (target, *order, error) {
	t, err := r.asked(c)
	if err != nil {
		return target{}, nil, err
	}
	known, ok := commandOf(c.Param("action"))
	if !ok {
		return target{}, nil, &fault{
			status: http.StatusNotFound, heading: "There is no such command", text: "The page of the circuit says what can be done to it.",
		}
	}
	return t, &order{command: known, lasts: terms[0].value}, nil
}

// readForm reads the fields of a form, which must come within a while.
func readForm(c echo.Context) error {
	request, control := c.Request(), http.NewResponseController(c.Response())
	_ = control.SetReadDeadline(time.Now().Add(writeTimeout)) // what cannot be bound is read all the same
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	request.Body = http.MaxBytesReader(c.Response(), request.Body, maxForm)
	if err := request.ParseForm(); err != nil {
		return &fault{
			status: http.StatusBadRequest, heading: "The form could not be read",
			text: "It came broken, too slowly, or with too much in it. Go back and send it again.",
		}
	}
	return nil
}

// read takes what was typed, and returns the command that it comes to; false
// when something is wrong with it.
func (o *order) read(form map[string][]string) (breaker.Command, bool) {
	o.reason, o.reasonFault = o.readReason(first(form["reason"]))
	given := breaker.Command{Action: o.action, Note: o.reason, Actor: actor}
	if o.asks {
		o.lasts = first(form["for"])
		at := slices.IndexFunc(terms, func(s term) bool { return s.value == o.lasts })
		if at < 0 {
			o.lastsFault = "Choose one of these times."
		} else {
			given.For = terms[at].lasts
		}
	}
	return given, o.reasonFault == "" && o.lastsFault == ""
}

// readReason returns a reason without the space around it, and what is wrong
// with it.
func (o *order) readReason(typed string) (reason, problem string) {
	reason = strings.TrimSpace(typed)
	switch {
	case reason == "" && o.asks:
		return reason, "Say why, for whoever finds the circuit so."
	case utf8.RuneCountInString(reason) > longestReason:
		return reason, fmt.Sprintf("Say it in %d characters.", longestReason)
	case !utf8.ValidString(reason) || strings.ContainsFunc(reason, unreadable):
		return reason, "Say it in one line of plain text."
	default:
		return reason, ""
	}
}

// unreadable reports what is not seen in a line of text, or changes how the
// rest of it is seen.
func unreadable(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func (p *Pages) sendCommand(c echo.Context, status int, seen reading, t target, o *order) error {
	return send(c, status, templates.CommandDetail(templates.CommandPage{
		Frame: p.frame(o.name(t)+": "+t.Key(), templates.SectionOverview), Key: t.Key(), Circuit: circuitURL(t.Key()),
		Form: seen.commandForm(t, o),
	}))
}

// commandForm is the form of a command, which says what would become of callers.
func (r reading) commandForm(t target, o *order) templates.CommandForm {
	form := templates.CommandForm{
		URL: commandURL(t, o.command), Title: o.name(t), Effect: o.effectOn(t), Mark: t.state(), Tone: o.tone,
		Button: o.name(t), Cancel: circuitURL(t.Key()), Trouble: o.trouble,
		Reason: templates.Field{Value: o.reason, Problem: o.reasonFault, Longest: longestReason, Required: o.asks},
	}
	then := r.after(t, o.becomes())
	form.Callers = then.fareOf(t)
	if r.callers.Direct && o.becomes() == breaker.ForcedOpen && !t.assembles() && !t.IsHealth() {
		form.Direct = r.callers.DirectNeed.direct(t)
	}
	if o.asks {
		form.Lasts.Problem = o.lastsFault
		for _, s := range terms {
			form.Lasts.Options = append(form.Lasts.Options, templates.Option{Value: s.value, Text: s.text, Chosen: s.value == o.lasts})
		}
	}
	return form
}

// after is the reading as it would be with a circuit in another state, which an
// operator has set without end.
func (r reading) after(t target, state breaker.State) reading {
	r.all = slices.Clone(r.all)
	for i := range r.all {
		if r.all[i].Target == t.Target {
			r.all[i].circuit = breaker.Snapshot{Key: t.Key(), Enabled: t.circuit.Enabled, State: state}
		}
	}
	return r
}
