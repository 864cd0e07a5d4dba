package provider

import (
	"net/http"
	"strings"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/wire"
)

// Statuses that net/http does not name.
const (
	statusQuotaExceeded  = 456 // DeepL
	statusFlexCapacity   = 498 // Groq
	statusClientClosed   = 499 // nginx, Gemini
	statusSiteOverloaded = 529 // Anthropic and others
)

// Classify gives an upstream's refusal its class and reason. What the body
// says in so many words goes before the status, which many servers use
// loosely; inside a 2xx the words are all there is.
func Classify(status int, c wire.Complaint) (llm.FailureClass, llm.Reason) {
	inside := status >= 200 && status < 300
	if inside && c.Status >= 400 {
		return Classify(c.Status, c)
	}
	if class, reason, ok := byAccount(status, c); ok {
		return class, reason
	}
	if class, reason, ok := byRequest(status, c); ok {
		return class, reason
	}
	if inside {
		return byType(c)
	}
	return byStatus(status, c)
}

// byAccount recognises what our own account with the provider is to blame for.
func byAccount(status int, c wire.Complaint) (llm.FailureClass, llm.Reason, bool) {
	switch {
	case c.Says("openrouter_in_flight_budget"):
		return llm.ClassRateLimit, llm.ReasonRateLimited, true
	case noCredit(status, c):
		return llm.ClassQuota, llm.ReasonQuotaExhausted, true
	case status >= 500:
		return "", "", false
	case c.Says("API_KEY_INVALID", "invalid_api_key", "UNAUTHENTICATED"):
		return llm.ClassAuth, llm.ReasonInvalidCredentials, true
	case c.Says("FAILED_PRECONDITION"):
		return llm.ClassConfiguration, llm.ReasonUnsupported, true
	case c.Says("model_not_found", "unknown_model", "DeploymentNotFound"):
		return llm.ClassConfiguration, llm.ReasonModelNotFound, true
	default:
		return "", "", false
	}
}

// noCredit recognises an account that is out of money or over a limit that
// waiting a moment does not lift.
func noCredit(status int, c wire.Complaint) bool {
	switch {
	case status == http.StatusPaymentRequired, status == statusQuotaExceeded:
		return true
	case status >= 500:
		return false
	case c.Says("insufficient_quota", "credit_balance_exhausted", "billing_error", "quota_exceeded",
		"enforced_spend_limit_reached", "contract_spend_limit_reached"):
		return true
	case strings.HasSuffix(c.Code, "_spend_limit_exceeded"), strings.HasSuffix(c.Code, "_usage_limit_exceeded"):
		return true
	case status == http.StatusForbidden && c.Says("resets_at"):
		return true
	case status == http.StatusTooManyRequests && perDay(c.Hints):
		return true
	}
	return status == http.StatusBadRequest && mentions(c, "credit balance is too low", "api usage limits", "insufficient balance")
}

func perDay(hints []string) bool {
	for _, h := range hints {
		if strings.Contains(h, "PerDay") {
			return true
		}
	}
	return false
}

// byRequest recognises what the request itself is to blame for.
func byRequest(status int, c wire.Complaint) (llm.FailureClass, llm.Reason, bool) {
	switch {
	case status >= 500:
		return "", "", false
	case c.Says("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation", "moderation"):
		return llm.ClassClientError, llm.ReasonContentFilter, true
	case tooLong(status, c):
		return llm.ClassClientError, llm.ReasonContextLength, true
	default:
		return "", "", false
	}
}

// tooLong recognises a request that does not fit the model, or is larger than
// the limit of a whole minute: it will never be served there.
func tooLong(status int, c wire.Complaint) bool {
	switch status {
	case http.StatusRequestEntityTooLarge:
		return c.Says("context_length_exceeded") || mentions(c, "model", "token")
	case http.StatusTooManyRequests:
		return mentions(c, "request too large")
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return false
	}
	return c.Says("context_length_exceeded") ||
		mentions(c, "maximum context length", "context window", "prompt is too long", "exceeds the context", "exceed context")
}

func mentions(c wire.Complaint, phrases ...string) bool {
	message := strings.ToLower(c.Message)
	for _, p := range phrases {
		if strings.Contains(message, p) {
			return true
		}
	}
	return false
}

// byType classifies an error inside a 2xx by its words. One that says nothing
// we know is the provider's own fault: it had accepted the request.
func byType(c wire.Complaint) (llm.FailureClass, llm.Reason) {
	switch {
	case overloaded(c):
		return llm.ClassServerError, llm.ReasonOverloaded
	case c.Says("rate_limit_error", "rate_limit_exceeded", "slow_down", "requests", "tokens", "too_many_requests", "RESOURCE_EXHAUSTED"):
		return llm.ClassRateLimit, llm.ReasonRateLimited
	case c.Says("authentication_error"):
		return llm.ClassAuth, llm.ReasonInvalidCredentials
	case c.Says("permission_error", "permission_denied", "PERMISSION_DENIED"):
		return llm.ClassAuth, llm.ReasonForbidden
	case c.Says("not_found_error", "NotFoundError", "NOT_FOUND"):
		return llm.ClassConfiguration, llm.ReasonModelNotFound
	case c.Says("invalid_request_error", "BadRequestError", "INVALID_ARGUMENT"):
		return llm.ClassClientError, llm.ReasonInvalidRequest
	default:
		return llm.ClassServerError, llm.ReasonStreamError
	}
}

func overloaded(c wire.Complaint) bool {
	return c.Says("overloaded_error", "server_is_overloaded", "service_unavailable_error", "overloaded", "UNAVAILABLE") ||
		mentions(c, "overloaded", "maximum pending requests")
}

// byStatus is the table of defaults.
func byStatus(status int, c wire.Complaint) (llm.FailureClass, llm.Reason) {
	switch status {
	case http.StatusUnauthorized, http.StatusProxyAuthRequired:
		return llm.ClassAuth, llm.ReasonInvalidCredentials
	case http.StatusForbidden:
		return llm.ClassAuth, llm.ReasonForbidden
	case http.StatusNotFound:
		return llm.ClassConfiguration, llm.ReasonModelNotFound
	case http.StatusRequestTimeout, http.StatusTooEarly:
		return llm.ClassConnection, llm.ReasonUpstreamStatus
	case http.StatusTooManyRequests, statusFlexCapacity:
		return llm.ClassRateLimit, llm.ReasonRateLimited
	case statusClientClosed:
		return llm.ClassUnknown, llm.ReasonUpstreamStatus
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return llm.ClassConfiguration, llm.ReasonUnsupported
	case statusSiteOverloaded:
		return llm.ClassServerError, llm.ReasonOverloaded
	}
	switch status / 100 {
	case 3:
		return llm.ClassConfiguration, llm.ReasonRedirected
	case 4:
		return llm.ClassClientError, llm.ReasonInvalidRequest
	case 5:
		if overloaded(c) {
			return llm.ClassServerError, llm.ReasonOverloaded
		}
		return llm.ClassServerError, llm.ReasonUpstreamStatus
	default:
		return llm.ClassUnknown, llm.ReasonUpstreamStatus
	}
}
