package messages

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// statusOverloaded is the status by which Anthropic says that it is overloaded.
const statusOverloaded = 529

// errorTypes are the types of errors, by their status. Other statuses below 500 have the type
// invalid_request_error, and other ones from 500 on api_error.
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

// errorStatus returns the status of an error, which is Anthropic's own for an overload.
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

// index matches an index in the path of a field.
var index = regexp.MustCompile(`\[(\d+)\]`)

// errorMessage returns the message of an error in Anthropic's words. Clients look for "prompt
// is too long", and then compact the conversation.
func errorMessage(e *apierror.Error) string {
	if e.Code == apierror.CodeContextLength {
		return "prompt is too long: " + e.Message
	}
	if rest, about := strings.CutPrefix(e.Message, e.Param+": "); about && e.Param != "" {
		return strings.TrimPrefix(index.ReplaceAllString(e.Param, ".$1"), ".") + ": " + rest
	}
	return e.Message
}

// errorBody is an ErrorResponse.
type errorBody struct {
	Type      string      `json:"type"` // error
	Error     errorObject `json:"error"`
	RequestID string      `json:"request_id,omitempty"`
}

type errorObject struct {
	Type    string        `json:"type"`
	Message string        `json:"message"`
	Details *errorDetails `json:"details,omitempty"`
}

// errorDetails name a feature that is not supported. Anthropic's SDK then does without it.
type errorDetails struct {
	Code        apierror.Code `json:"error_code"`
	Unsupported []string      `json:"unsupported"`
}

// body returns an error as a JSON object.
func body(e *apierror.Error, requestID string) []byte {
	object := errorObject{Type: errorType(errorStatus(e)), Message: errorMessage(e)}
	if e.Code == codeThread {
		object.Details = &errorDetails{codeThread, []string{e.Param}}
	}
	return wirejson.Append(nil, errorBody{"error", object, requestID})
}

// EncodeError encodes errors for Anthropic's clients: their status and their body. It
// sets the headers by which these clients decide whether to try again, and reads the id of
// the request from them.
func EncodeError(e *apierror.Error, h http.Header) (status int, _ []byte) {
	if e.Status == http.StatusUnauthorized { // else Claude Code tries for minutes
		h.Set("X-Should-Retry", "false")
	}
	return errorStatus(e), body(e, h.Get(RequestIDHeader))
}

// RequestIDHeader is the header of every answer in which Anthropic's SDKs look for its id.
const RequestIDHeader = "Request-Id"
