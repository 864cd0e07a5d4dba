package api

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/keys"
)

// Keys knows who API keys belong to.
type Keys interface {
	// Verify returns keys.ErrInvalid for a key that is worth nothing,
	// keys.ErrUnchecked while nobody can tell, and a *keys.ThrottledError for a
	// client that has tried too many.
	Verify(ctx context.Context, key string, client netip.Addr) (*keys.Identity, error)
}

const callerKey = "caller"

// callerOf returns who authenticate found; nil while every caller is let in.
func callerOf(c echo.Context) *keys.Identity {
	caller, _ := c.Get(callerKey).(*keys.Identity)
	return caller
}

// authenticate finds out who calls, before anything of the body is read.
func (d *data) authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	if d.Keys == nil {
		return next
	}
	return func(c echo.Context) error {
		r := c.Request()
		key, err := givenKey(r.Header)
		if err != nil {
			return challenge(c, unheard(c, err))
		}
		caller, err := d.Keys.Verify(r.Context(), key, clientOf(r))
		if err != nil {
			return d.unverified(c, key, unheard(c, err))
		}
		c.Set(callerKey, caller)
		return next(c)
	}
}

// unheard lets the answer go before a body that nobody reads has come: on a
// connection that is to be used again, the server would wait for it.
func unheard(c echo.Context, err error) error {
	if c.Request().ContentLength != 0 {
		c.Response().Header().Set("Connection", "close")
	}
	return err
}

// unverified is what a client is told whose key was not found to be one.
func (d *data) unverified(c echo.Context, key string, err error) error {
	var throttled *keys.ThrottledError
	switch {
	case errors.Is(err, keys.ErrInvalid):
		return challenge(c, badKey(key))
	case errors.Is(err, keys.ErrUnchecked):
		return keyUnchecked()
	case errors.As(err, &throttled):
		return tooManyKeys(throttled.RetryAfter)
	default:
		return err
	}
}

// challenge adds to a 401 how to do better.
func challenge(c echo.Context, err error) error {
	c.Response().Header().Set("WWW-Authenticate", `Bearer realm="breakwater"`)
	return err
}

// givenKey reads the key of a request from Authorization or x-api-key: client
// libraries of the dialects have their own habits, and may send both.
func givenKey(header http.Header) (string, error) {
	given := header["Authorization"]
	bare := header["X-Api-Key"]
	switch {
	case len(given) == 0 && len(bare) == 0:
		return "", noKey()
	case len(given) > 1 || len(bare) > 1:
		return "", severalKeys()
	case len(given) == 0:
		return strings.TrimSpace(bare[0]), nil
	}
	key, ok := bearerToken(given)
	switch {
	case !ok:
		return "", noBearer()
	case len(bare) == 1 && strings.TrimSpace(bare[0]) != key:
		return "", severalKeys()
	default:
		return key, nil
	}
}

// clientOf is the address that a request comes from. What it says of others that
// it came through anybody can write.
func clientOf(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr) // a connection without an address has the zero one
	return from.Addr()
}
