package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// row is one row of the error table: the status and the machine-readable words
// that clients and dashboards depend on.
type row struct {
	status int
	kind   string // "type" in the envelope
	code   string
}

// answers are the rows of a call that failed.
var answers = map[llm.Answer]row{
	llm.AnswerTimeout:       {http.StatusGatewayTimeout, "upstream_error", "upstream_timeout"},
	llm.AnswerCallerTimeout: {http.StatusGatewayTimeout, "upstream_error", "caller_timeout"},
	llm.AnswerRateLimited:   {http.StatusTooManyRequests, "rate_limit_error", "upstream_rate_limited"},
	llm.AnswerSaturated:     {http.StatusServiceUnavailable, "service_unavailable_error", "overloaded"},
	llm.AnswerCircuitOpen:   {http.StatusServiceUnavailable, "service_unavailable_error", "circuit_open"},
	llm.AnswerUnavailable:   {http.StatusServiceUnavailable, "service_unavailable_error", "upstream_unavailable"},
	llm.AnswerShuttingDown:  {http.StatusServiceUnavailable, "service_unavailable_error", "shutting_down"},
	llm.AnswerFailed:        {http.StatusBadGateway, "upstream_error", "upstream_failed"},
	llm.AnswerAuth:          {http.StatusBadGateway, "upstream_error", "upstream_auth"},
	llm.AnswerConfiguration: {http.StatusBadGateway, "upstream_error", "upstream_configuration"},
	llm.AnswerQuota:         {http.StatusBadGateway, "upstream_error", "upstream_quota"},
	llm.AnswerUnknown:       {http.StatusBadGateway, "upstream_error", "upstream_unknown"},
	llm.AnswerClientError:   {http.StatusBadRequest, "invalid_request_error", "upstream_refused"},
	llm.AnswerClientLeft:    {statusClientLeft, "cancelled", "client_left"},
	llm.AnswerBudget:        {http.StatusPaymentRequired, "insufficient_quota", "budget_exceeded"},
	llm.AnswerCallerLimited: {http.StatusTooManyRequests, "rate_limit_error", "rate_limit_exceeded"},
	llm.AnswerUnpriced:      {http.StatusForbidden, "permission_error", "unpriced_model"},
	llm.AnswerKeyInProgress: {http.StatusConflict, "conflict_error", "idempotency_in_progress"},
	llm.AnswerKeyReused:     {http.StatusUnprocessableEntity, "invalid_request_error", "idempotency_key_reused"},
	llm.AnswerNotKept:       {http.StatusConflict, "conflict_error", "idempotency_answer_too_large"},
	llm.AnswerNoReplay:      {http.StatusServiceUnavailable, "service_unavailable_error", "idempotency_unavailable"},
	llm.AnswerInternal:      {http.StatusInternalServerError, "server_error", "internal_error"},
}

// statusClientLeft is what is recorded when nobody is left to be answered.
const statusClientLeft = 499

// The rows of requests that are refused before they become a call.
var (
	rowInvalidJSON      = row{http.StatusBadRequest, "invalid_request_error", "invalid_json"}
	rowInvalidValue     = row{http.StatusBadRequest, "invalid_request_error", "invalid_value"}
	rowTooLarge         = row{http.StatusRequestEntityTooLarge, "invalid_request_error", "request_too_large"}
	rowKeyInvalid       = row{http.StatusBadRequest, "invalid_request_error", "idempotency_key_invalid"}
	rowInvalidAPIKey    = row{http.StatusUnauthorized, "authentication_error", "invalid_api_key"}
	rowKeyStoreAway     = row{http.StatusServiceUnavailable, "service_unavailable_error", "key_store_unavailable"}
	rowModelNotAllowed  = row{http.StatusForbidden, "permission_error", "model_not_allowed"}
	rowModelNotFound    = row{http.StatusNotFound, "invalid_request_error", "model_not_found"}
	rowUnknownURL       = row{http.StatusNotFound, "invalid_request_error", "unknown_url"}
	rowMethodNotAllowed = row{http.StatusMethodNotAllowed, "invalid_request_error", "method_not_allowed"}
)

// The rows of both listeners while they are open to this machine alone.
var (
	rowCrossOrigin = row{http.StatusForbidden, "permission_error", "cross_origin"}
	rowMisdirected = row{http.StatusMisdirectedRequest, "invalid_request_error", "misdirected_host"}
)

// The rows of the operator API alone.
var (
	rowNotFound     = row{http.StatusNotFound, "invalid_request_error", "not_found"}
	rowUnauthorized = row{http.StatusUnauthorized, "authentication_error", "invalid_token"}
	rowNameTaken    = row{http.StatusConflict, "conflict_error", "name_taken"}
	rowForbidden    = row{http.StatusForbidden, "permission_error", "operator_required"}
	rowCacheAway    = row{http.StatusServiceUnavailable, "service_unavailable_error", "cache_unavailable"}
	rowDatabaseAway = row{http.StatusServiceUnavailable, "service_unavailable_error", "database_unavailable"}
)

// RefusalCodes lists every code under which the data plane refuses a request
// before it becomes a call; the metric starts with all of them at 0.
func RefusalCodes() []string {
	codes := []string{
		rowInvalidJSON.code, rowInvalidValue.code, rowTooLarge.code, rowModelNotFound.code, rowKeyInvalid.code,
		rowUnknownURL.code, rowMethodNotAllowed.code, rowCrossOrigin.code, rowMisdirected.code,
		rowInvalidAPIKey.code, rowKeyStoreAway.code, rowModelNotAllowed.code, answers[llm.AnswerCallerLimited].code,
		answers[llm.AnswerSaturated].code, answers[llm.AnswerShuttingDown].code, answers[llm.AnswerInternal].code,
	}
	slices.Sort(codes)
	return codes
}

// fault is an error on its way to a client: a row of the table with our words.
type fault struct {
	row
	param   string        // the field or header at fault, or empty
	message string        // what is wrong, where, and what to do
	wait    time.Duration // until a retry may help; 0 = not known
	body    []byte        // an upstream's own refusal, passed on as it came
	final   bool          // to send the request again by itself would do harm
}

// Error names the code and the message.
func (f *fault) Error() string { return f.code + ": " + f.message }

// statusOf returns the status that a client gets for an error of the pipeline;
// nil is 200.
func statusOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	v := llm.Judge(err)
	if v.Answer == llm.AnswerClientError {
		return clientErrorStatus(v.Failure)
	}
	return answers[v.Answer].status
}

// judged turns an error of the pipeline into what its client is told.
func judged(call *llm.Call, err error) *fault {
	v := llm.Judge(err)
	if v.Answer == llm.AnswerClientError {
		return relayed(v.Failure)
	}
	told := &fault{row: answers[v.Answer], message: describe(call, v, err), wait: v.RetryAfter, final: v.Answer == llm.AnswerNotKept}
	if v.Answer == llm.AnswerShuttingDown {
		told.wait = soon // another replica, or this one restarted
	}
	return told
}

// relayed is an upstream's refusal of the request itself: unchanged where the
// provider says that it may be passed on, else its words in our envelope.
func relayed(f *llm.Failure) *fault {
	told := &fault{row: answers[llm.AnswerClientError]}
	told.status = clientErrorStatus(f)
	told.message = fmt.Sprintf("%s refused the request with status %d and gave no readable reason; compare the request with what this model accepts.", f.Target.Key(), f.Status)
	if f.Upstream == nil {
		return told
	}
	told.body = f.Upstream.Body
	told.param = f.Upstream.Param
	if f.Upstream.Message != "" {
		told.message = f.Upstream.Message
	}
	if f.Upstream.Type != "" {
		told.kind = f.Upstream.Type
	}
	if f.Upstream.Code != "" {
		told.code = f.Upstream.Code
	}
	return told
}

// clientErrorStatus is the upstream's status; an error inside a 200 that blames
// the request is a 400.
func clientErrorStatus(f *llm.Failure) int {
	if f.Status < 400 || f.Status > 499 {
		return http.StatusBadRequest
	}
	return f.Status
}

// faultOf returns what a client is told about an error of a handler. Whatever is
// not a fault already is one of ours, and only the log knows its details.
func faultOf(c echo.Context, err error) *fault {
	var known *fault
	if errors.As(err, &known) {
		return known
	}
	var routing *echo.HTTPError
	if errors.As(err, &routing) {
		switch routing.Code {
		case http.StatusNotFound:
			return unknownURL(c.Request())
		case http.StatusMethodNotAllowed:
			return methodNotAllowed(c)
		}
	}
	if errors.Is(err, context.Canceled) && c.Request().Context().Err() != nil {
		return clientLeft()
	}
	return internalFault(identityOf(c))
}
