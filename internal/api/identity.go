package api

import (
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
)

// identity is what tells one request from all others, in its answer, in the log
// and in telemetry.
type identity struct {
	run         uuid.UUID // version 7; also the run's id when the request becomes a call
	correlation string
	receivedAt  time.Time
}

const identityKey = "identity"

// identify gives every request its ids, also those that are refused, and puts
// them into the answer before anything else can happen.
func identify(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := identity{
			run:         uuid.Must(uuid.NewV7()),
			correlation: correlationID(c.Request().Header),
			receivedAt:  time.Now(),
		}
		c.Set(identityKey, id)
		header := c.Response().Header()
		header.Set(headerRequestID, id.run.String())
		header.Set(headerRequestIDShort, id.run.String())
		header.Set(headerCorrelationID, id.correlation)
		return next(c)
	}
}

// identityOf returns the ids that identify gave the request.
func identityOf(c echo.Context) identity {
	id, _ := c.Get(identityKey).(identity)
	return id
}

// correlationID takes the caller's id over if it is one of 1 to 128 visible ASCII
// characters; anything else could forge a log line or a header, and of several
// none is the right one, so they are ignored and a new id is minted.
func correlationID(header http.Header) string {
	if ids := header.Values(headerCorrelationID); len(ids) == 1 && visibleASCII(ids[0]) && len(ids[0]) <= 128 {
		return ids[0]
	}
	return uuid.Must(uuid.NewV7()).String()
}

func visibleASCII(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != ""
}
