package api

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"
)

// query reads the parameters of a URL strictly: one that is unknown, given
// twice or malformed is refused, since a filter that is silently ignored shows
// the wrong rows. The first fault is kept.
type query struct {
	values url.Values
	err    error
}

// queryOf returns the query of a request that may hold these parameters.
func queryOf(c echo.Context, allowed ...string) *query {
	values, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return &query{err: invalidValue("", "The query of the URL is malformed; percent-encode its values.")}
	}
	q := &query{values: values}
	for name, given := range values {
		switch {
		case !slices.Contains(allowed, name):
			q.fail(name, "There is no parameter %q here; use %s.", name, list(allowed))
		case len(given) > 1:
			q.fail(name, "The parameter %q is given more than once.", name)
		case !plainText(given[0]):
			q.fail(name, "The parameter %q holds a NUL or bytes that are no UTF-8, which nothing recorded does.", name)
		}
	}
	return q
}

// noQuery refuses any parameter.
func noQuery(c echo.Context) error { return queryOf(c).err }

func (q *query) fail(name, format string, args ...any) {
	if q.err == nil {
		q.err = invalidValue(name, fmt.Sprintf(format, args...))
	}
}

// plainText reports whether a text can be stored, and so be asked for: Postgres
// keeps UTF-8 without NUL.
func plainText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

func (q *query) text(name string) string { return q.values.Get(name) }

// oneOf reads a word of a closed list; absent is empty.
func (q *query) oneOf(name string, words []string) string {
	value := q.values.Get(name)
	if value != "" && !slices.Contains(words, value) {
		q.fail(name, "%s is none of %s.", name, list(words))
	}
	return value
}

// number reads a whole number within bounds; absent is otherwise.
func (q *query) number(name string, least, most, otherwise int64) int64 {
	value := q.values.Get(name)
	if value == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < least || n > most {
		q.fail(name, "%s must be a whole number from %d to %d.", name, least, most)
	}
	return n
}

// instant reads a time; absent is zero, so that instant cannot be asked for.
func (q *query) instant(name string) time.Time {
	value := q.values.Get(name)
	if value == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, value)
	if err != nil || t.Year() < 1 || t.IsZero() {
		q.fail(name, "%s must be a time such as 2026-01-31T15:04:05Z (RFC 3339; a + is percent-encoded as %%2B).", name)
	}
	return t.UTC()
}

func list(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}
