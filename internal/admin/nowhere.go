package admin

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// Nowhere answers a path that nothing is at: a person in a browser gets a page
// that leads on. For everybody else it returns echo.ErrNotFound, and the listener
// says what it says to programs.
func (p *Pages) Nowhere(c echo.Context) error {
	request := c.Request()
	person := request.Method == http.MethodGet && strings.Contains(request.Header.Get("Accept"), "text/html")
	if !person || request.URL.Path == "/api" || strings.HasPrefix(request.URL.Path, "/api/") {
		return echo.ErrNotFound
	}
	return secured(p.explained(func(echo.Context) error {
		return &fault{
			status: http.StatusNotFound, heading: "There is no such page",
			text: "The address may be mistyped. The overview leads to all pages.",
		}
	}))(c)
}
