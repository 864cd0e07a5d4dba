package api

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/keys"
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

// slashedKey answers for a circuit whose key is written with its own slashes, with
// the path as it has to be.
func slashedKey(r *http.Request, path string) *fault {
	return &fault{row: rowUnknownURL, message: fmt.Sprintf("There is no %s %s here; the key of a circuit is one segment of the path, so its slashes are written %%2F: %s.", r.Method, r.URL.Path, path)}
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

// keyInvalid says what is wrong with an Idempotency-Key.
func keyInvalid(how string) *fault {
	return &fault{row: rowKeyInvalid, param: headerIdempotencyKey, message: "The header Idempotency-Key " + how + "."}
}

// howToSend ends what callers are told who sent no key that can be read.
const howToSend = "send it as `Authorization: Bearer bw_…` or as `x-api-key: bw_…`"

func noKey() *fault {
	return &fault{row: rowInvalidAPIKey, message: "No API key was given; " + howToSend + ". The gateway's operator mints keys with `breakwater keys create`."}
}

func noBearer() *fault {
	return &fault{row: rowInvalidAPIKey, message: "The Authorization header holds no API key; " + howToSend + "."}
}

func severalKeys() *fault {
	return &fault{row: rowInvalidAPIKey, message: "More than one API key was given; send one alone, as `Authorization: Bearer bw_…` or as `x-api-key: bw_…`."}
}

// badKey shows of a key no more than its public beginning, and of one that has
// another form than ours nothing.
func badKey(key string) *fault {
	public := keys.Public(key)
	switch {
	case public == "" && strings.HasPrefix(key, "bw_"):
		return &fault{row: rowInvalidAPIKey, message: "The API key is not known here; check that it was copied whole, and that it is not revoked. `breakwater keys list` shows which there are."}
	case public == "":
		return &fault{row: rowInvalidAPIKey, message: "What was given is no API key of this gateway, whose keys begin with bw_; check which key is sent. The gateway's operator mints keys with `breakwater keys create`."}
	default:
		return &fault{row: rowInvalidAPIKey, message: fmt.Sprintf("The API key %s… is unknown, expired or revoked; ask the gateway's operator for another. `breakwater keys list` shows which there are.", public)}
	}
}

func keyUnchecked() *fault {
	return &fault{row: rowKeyStoreAway, wait: soon,
		message: "The gateway's database cannot be reached, so this API key cannot be checked; keys that were used lately go on. Retry in 1 s."}
}

func tooManyKeys(wait time.Duration) *fault {
	return &fault{row: answers[llm.AnswerCallerLimited], wait: wait,
		message: fmt.Sprintf("Too many unknown API keys came from this address; %s with a valid one.", retryIn(wait))}
}

func modelNotAllowed(key, model string) *fault {
	return &fault{row: rowModelNotAllowed, param: "model",
		message: fmt.Sprintf("The API key %q may not use the model %q; GET /v1/models lists what it may name.", key, model)}
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

func nameTaken(name string) *fault {
	return &fault{row: rowNameTaken, param: "name",
		message: fmt.Sprintf("A live API key has the name %q; revoke that one first, or choose another name.", name)}
}

func operatorRequired(name string) *fault {
	return &fault{row: rowForbidden,
		message: fmt.Sprintf("The token %q has the role viewer, which changes nothing; use one with the role operator.", name)}
}

func databaseAway() *fault {
	return &fault{row: rowDatabaseAway, wait: soon,
		message: "The database cannot be reached, so what it has recorded cannot be shown; calls are served meanwhile. Retry in 1 s."}
}
