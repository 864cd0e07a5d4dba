package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/operators"
)

// Tokens knows who operator tokens belong to.
type Tokens interface {
	// Verify returns operators.ErrInvalidToken for a token that is worth nothing
	// and operators.ErrUnchecked while nobody can tell.
	Verify(ctx context.Context, token string) (operators.Operator, error)
}

const operatorKey = "operator"

// authenticate finds out who calls the operator API, or looks at a page. A token
// that is given is checked; without one it is somebody on this machine, since the
// listener is open to no other. The metrics have a token of their own, and a page
// takes no notice of what a proxy in front of it is told.
func (a *admin) authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ofPage := !strings.HasPrefix(c.Path(), "/api/")
		if ofPage && (slices.Contains(asked, c.Path()) || !bearsToken(c)) {
			c.Set(operatorKey, operators.Local())
			return next(c)
		}
		operator, err := a.operator(c)
		if err != nil {
			return err
		}
		c.Set(operatorKey, operator)
		if ofPage && c.Request().Method != http.MethodGet && c.Request().Method != http.MethodHead {
			return mayChange(next)(c) // a button; routes of the API ask for themselves
		}
		return next(c)
	}
}

func (a *admin) operator(c echo.Context) (operators.Operator, error) {
	given := c.Request().Header.Values("Authorization")
	if len(given) == 0 {
		return operators.Local(), nil
	}
	token, ok := bearerToken(given)
	if !ok {
		return operators.Operator{}, unauthorized(c)
	}
	operator, err := a.Tokens.Verify(c.Request().Context(), token)
	switch {
	case errors.Is(err, operators.ErrInvalidToken):
		return operators.Operator{}, unauthorized(c)
	case errors.Is(err, operators.ErrUnchecked):
		return operators.Operator{}, tokenUnchecked()
	}
	return operator, err
}

// asked are the paths that machines ask, with a token of their own or none.
var asked = []string{"/metrics", "/healthz", "/readyz"}

func bearsToken(c echo.Context) bool {
	_, ok := bearerToken(c.Request().Header.Values("Authorization"))
	return ok
}

// bearerToken reads the one Authorization header of a request; the scheme's
// name may be written in any case.
func bearerToken(given []string) (string, bool) {
	if len(given) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

func unauthorized(c echo.Context) error {
	c.Response().Header().Set("WWW-Authenticate", `Bearer realm="operators", error="invalid_token"`)
	return badToken()
}

// operatorOf returns who authenticate found.
func operatorOf(c echo.Context) operators.Operator {
	operator, _ := c.Get(operatorKey).(operators.Operator)
	return operator
}

// mayChange refuses those who may only look.
func mayChange(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if operator := operatorOf(c); !operator.MayChange() {
			return operatorRequired(operator.Name)
		}
		return next(c)
	}
}
