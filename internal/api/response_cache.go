package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
)

// Responses are the answers that are kept to be given again.
type Responses interface {
	// Configurations names what they are kept of; an empty name stands for direct
	// targets.
	Configurations() []string
	// Clear forgets those of some, and says how many there were. The error is that
	// of a cache that cannot be reached.
	Clear(ctx context.Context, configurations ...string) (deleted int, err error)
}

// clearLimit is how long it may take to forget answers: there may be many.
const clearLimit = 10 * time.Second

// clearResponses serves DELETE /api/v1/response-cache.
func (a *admin) clearResponses(c echo.Context) error {
	which, err := a.configurationsOf(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), clearLimit)
	defer cancel()
	deleted, err := a.Responses.Clear(ctx, which...)
	if err != nil {
		a.Log.Warn("response cache was not cleared", "deleted", deleted, "error", err)
		return cacheAway(deleted)
	}
	return sendJSON(c, http.StatusOK, map[string]int{"deleted": deleted})
}

// configurationsOf reads whose answers are meant: those of one configuration, or
// of all.
func (a *admin) configurationsOf(c echo.Context) ([]string, error) {
	q := queryOf(c, "configuration")
	if q.err != nil {
		return nil, q.err
	}
	all := a.Responses.Configurations()
	if !q.values.Has("configuration") {
		return all, nil
	}
	name := q.text("configuration")
	if name == "" || !slices.Contains(all, name) {
		return nil, notFound("There is no configuration %q; leave the parameter out for all answers.", name)
	}
	return []string{name}, nil
}

// cacheAway is the answer while what is kept cannot be reached.
func cacheAway(deleted int) *fault {
	return &fault{
		row:     rowCacheAway,
		message: fmt.Sprintf("The cache cannot be reached; %d answers are forgotten, others may still be there. Try again when it is back.", deleted),
		wait:    soon,
	}
}
