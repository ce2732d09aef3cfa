package messages

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// statusOverloaded is the status of Anthropic's errors for an overload.
const statusOverloaded = 529

// errorTypes are the types of errors by status. For other statuses, see errorType.
var errorTypes = map[int]string{
	http.StatusUnauthorized:          "authentication_error",
	http.StatusPaymentRequired:       "billing_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestTimeout:        "timeout_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	http.StatusGatewayTimeout:        "timeout_error",
	statusOverloaded:                 "overloaded_error",
}

// errorStatus returns the status of an error in Anthropic's API, where an overload is statusOverloaded.
func errorStatus(e *apierror.Error) int {
	if e.Code == apierror.CodeServerOverloaded || e.Code == apierror.CodeCodexOverloaded {
		return statusOverloaded
	}
	return e.Status
}

func errorType(status int) string {
	switch kind := errorTypes[status]; {
	case kind != "":
		return kind
	case status >= http.StatusInternalServerError:
		return "api_error"
	}
	return "invalid_request_error"
}

// indexPattern matches an index in the path of a field.
var indexPattern = regexp.MustCompile(`\[(\d+)\]`)

// errorMessage returns an error's message in Anthropic's form: paths have messages.2 instead of
// messages[2]. At a message that begins with "prompt is too long", clients compact the conversation.
func errorMessage(e *apierror.Error) string {
	if e.Code == apierror.CodeContextLength {
		return "prompt is too long: " + e.Message
	}
	if problem, namesParam := strings.CutPrefix(e.Message, e.Param+": "); namesParam && e.Param != "" {
		return strings.TrimPrefix(indexPattern.ReplaceAllString(e.Param, ".$1"), ".") + ": " + problem
	}
	return e.Message
}

// errorBody is an ErrorResponse.
type errorBody struct {
	Type      string      `json:"type"` // always error
	Error     errorObject `json:"error"`
	RequestID string      `json:"request_id,omitempty"`
}

type errorObject struct {
	Type    string         `json:"type"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"` // names an unsupported field, without which Anthropic's SDK tries again
}

func errorJSON(e *apierror.Error, requestID string) []byte {
	object := errorObject{Type: errorType(errorStatus(e)), Message: errorMessage(e)}
	if e.Code == codeThread {
		object.Details = map[string]any{"error_code": codeThread, "unsupported": []string{e.Param}}
	}
	return wirejson.Append(nil, errorBody{"error", object, requestID})
}

// EncodeError returns the status and the body of an error for Anthropic's clients. h are the headers of
// the answer: the body repeats the request's id from them, and a 401 gets a header against retries.
func EncodeError(e *apierror.Error, h http.Header) (status int, _ []byte) {
	if e.Status == http.StatusUnauthorized { // otherwise Claude Code tries again for minutes
		h.Set("X-Should-Retry", "false")
	}
	return errorStatus(e), errorJSON(e, h.Get(RequestIDHeader))
}

// RequestIDHeader is the header with the request's id, which Anthropic's SDKs look for.
const RequestIDHeader = "Request-Id"
