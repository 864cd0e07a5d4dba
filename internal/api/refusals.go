package api

import (
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// soon is the wait that is told where nothing but a moment is in the way.
const soon = time.Second

// The constructors of the refusals, in the order in which a request meets them.

func internalFault(id identity) *fault {
	return &fault{row: answers[llm.AnswerInternal], message: internalMessage(id.run.String())}
}

// clientLeft is read by nobody; it keeps a departure from looking like a fault
// of ours.
func clientLeft() *fault {
	return &fault{row: answers[llm.AnswerClientLeft], message: "The client left before the answer was there."}
}

func unknownURL(r *http.Request) *fault {
	return &fault{row: rowUnknownURL, message: fmt.Sprintf("There is no %s %s here; check the base URL and the path.", r.Method, r.URL.Path)}
}

func methodNotAllowed(c echo.Context) *fault {
	r := c.Request()
	return &fault{row: rowMethodNotAllowed, message: fmt.Sprintf("%s does not take %s; use %s.", r.URL.Path, r.Method, c.Response().Header().Get("Allow"))}
}

func shuttingDown() *fault {
	return &fault{row: answers[llm.AnswerShuttingDown], wait: soon,
		message: "The gateway is shutting down and takes no new calls; retry in 1 s."}
}

func bodyTooLarge(limit int64) *fault {
	return &fault{row: rowTooLarge, message: fmt.Sprintf("The request body is over max_body, %d bytes; send less, such as smaller or fewer attachments.", limit)}
}

func tooManyBytes(limit int64) *fault {
	return &fault{row: answers[llm.AnswerSaturated], wait: soon,
		message: fmt.Sprintf("The bodies of all requests in flight would be over max_inflight_bytes, %d bytes; retry in 1 s.", limit)}
}

// bodyUnreadable does not show the cause: it speaks of connections, not of the
// request.
func bodyUnreadable() *fault {
	return &fault{row: rowInvalidJSON, message: "The request body did not come to its end in time; send it whole, with a correct Content-Length."}
}

func modelNotFound(model string) *fault {
	return &fault{row: rowModelNotFound, param: "model",
		message: fmt.Sprintf("There is no model %q here; GET /v1/models lists what may be named.", model)}
}

func invalidValue(param, message string) *fault {
	return &fault{row: rowInvalidValue, param: param, message: message}
}

func notFound(format string, args ...any) *fault {
	return &fault{row: rowNotFound, message: fmt.Sprintf(format, args...)}
}

func misdirected(host string) *fault {
	return &fault{row: rowMisdirected,
		message: fmt.Sprintf("This listener does not answer to the host %q; reach it as localhost or by its loopback address.", host)}
}

func crossOrigin() *fault {
	return &fault{row: rowCrossOrigin, message: "A page of another origin may not change anything here."}
}

func metricsUnauthorized() *fault {
	return &fault{row: rowUnauthorized, message: "The metrics need server.metrics_token as a bearer token in Authorization."}
}

func badToken() *fault {
	return &fault{row: rowUnauthorized,
		message: "The operator token is unknown, expired or revoked; `breakwater tokens list` shows which there are. Send it as a bearer token in Authorization."}
}

func tokenUnchecked() *fault {
	return &fault{row: rowDatabaseAway, wait: soon,
		message: "The database cannot be reached, so this operator token cannot be checked; retry in 1 s."}
}

func operatorRequired(name string) *fault {
	return &fault{row: rowForbidden,
		message: fmt.Sprintf("The token %q has the role viewer, which changes nothing; use one with the role operator.", name)}
}

func databaseAway() *fault {
	return &fault{row: rowDatabaseAway, wait: soon,
		message: "The database cannot be reached, so what it has recorded cannot be shown; calls are served meanwhile. Retry in 1 s."}
}
