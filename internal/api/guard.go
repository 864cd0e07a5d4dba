package api

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"
)

// secureHeaders keep an answer from being read as anything but data: not
// sniffed, framed, cached or run.
func secureHeaders(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		header := c.Response().Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-store")
		return next(c)
	}
}

// onlyLoopbackHost refuses a Host that is not this machine's own name for
// itself: a web page whose name was made to resolve to a loopback address
// would otherwise reach the gateway through a browser on this machine.
func onlyLoopbackHost(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !loopbackHost(c.Request().Host) {
			return misdirected(c.Request().Host)
		}
		return next(c)
	}
}

// loopbackHost reports whether a Host header names localhost or a loopback
// address, with any port or none.
func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}

// sameOriginChanges refuses a state change that a browser sends for a page of
// another origin. Clients that are no browser send none of the headers that it
// goes by, and pass.
func sameOriginChanges(protection *http.CrossOriginProtection) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if err := protection.Check(c.Request()); err != nil {
				return crossOrigin()
			}
			return next(c)
		}
	}
}

// bearer reports whether the request carries the token, compared in a time that
// does not depend on how much of it is right.
func bearer(r *http.Request, token string) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}
