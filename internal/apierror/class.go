package apierror

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Code is the code of an [Error]. Clients tell failures apart by it.
type Code string

// The codes of this server that others than this package need. The classes below have
// more, and a 400 of the model's provider may have others.
const (
	CodeAPIKeyExpired          Code = "api_key_expired"
	CodeExited                 Code = "codex_exited"
	CodeIdleTimeout            Code = "codex_idle_timeout"
	CodeInsufficientQuota      Code = "insufficient_quota"
	CodeInvalidAPIKey          Code = "invalid_api_key"
	CodeInvalidJSON            Code = "invalid_json"
	CodeInvalidType            Code = "invalid_type"
	CodeInvalidValue           Code = "invalid_value"
	CodeMissingParameter       Code = "missing_required_parameter"
	CodeModelNotFound          Code = "model_not_found"
	CodeNotFound               Code = "not_found"
	CodeQueueFull              Code = "codex_queue_full"
	CodeRefused                Code = "codex_refused"
	CodeResponseCancelled      Code = "response_cancelled"
	CodeResponseNotCancellable Code = "response_not_cancellable"
	CodeTimeout                Code = "codex_timeout"
	CodeUnauthorized           Code = "codex_unauthorized"
	CodeUnsupportedParameter   Code = "unsupported_parameter"
	CodeUpstreamDisconnected   Code = "upstream_disconnected"
)

// codes are the codes of this server: those of requests that are wrong, to which
// [newClass] adds.
var codes = map[Code]bool{
	CodeInvalidJSON: true, CodeInvalidType: true, CodeMissingParameter: true, CodeResponseCancelled: true,
}

// class has what all errors of a kind share: everything of an [Error] but its message.
type class struct {
	code   Code
	status int
	retry  time.Duration // the advice when to retry; 0: none
	param  string
}

// The advice to retry.
const (
	never      time.Duration = -1          // trying again is no use, whatever the status says
	soon                     = time.Second // nobody knows when it will help
	afterQueue               = 5 * time.Second
)

// ParamMessages is the param of a conversation that is too long.
const ParamMessages = "messages"

// newClass returns a class, and makes its code one of this server's.
func newClass(code Code, status int, retry time.Duration) class {
	codes[code] = true
	return class{code: code, status: status, retry: retry}
}

// The classes of failures of Codex and of the model's provider.
var (
	badRequest     = class{status: http.StatusBadRequest}
	tooLong        = newClass("context_length_exceeded", http.StatusBadRequest, 0).of(ParamMessages)
	contentRefused = newClass("content_policy_violation", http.StatusBadRequest, 0)
	refused        = newClass(CodeRefused, http.StatusBadRequest, 0)
	forbidden      = newClass("codex_forbidden", http.StatusForbidden, never)
	noSuchModel    = newClass(CodeModelNotFound, http.StatusNotFound, 0).of("model")
	rateLimited    = newClass("rate_limit_exceeded", http.StatusTooManyRequests, soon)
	quotaSpent     = newClass(CodeInsufficientQuota, http.StatusTooManyRequests, never)
	upstreamError  = newClass("upstream_error", http.StatusInternalServerError, 0)
	badGateway     = newClass("upstream_error", http.StatusBadGateway, 0)
	disconnected   = newClass(CodeUpstreamDisconnected, http.StatusBadGateway, 0)
	codexError     = newClass("codex_error", http.StatusBadGateway, 0)
	unauthorized   = newClass(CodeUnauthorized, http.StatusServiceUnavailable, never) // this server, not the client
	misconfigured  = newClass("codex_misconfigured", http.StatusServiceUnavailable, never)
	notReady       = newClass("codex_not_ready", http.StatusServiceUnavailable, soon)
	overloaded     = newClass("server_overloaded", http.StatusServiceUnavailable, soon)
	codexFull      = newClass("codex_overloaded", http.StatusServiceUnavailable, soon)
	unresponsive   = newClass("codex_unresponsive", http.StatusServiceUnavailable, soon)
	exited         = newClass(CodeExited, http.StatusServiceUnavailable, soon)
	interrupted    = newClass("codex_interrupted", http.StatusServiceUnavailable, soon)
	timedOut       = newClass(CodeTimeout, http.StatusGatewayTimeout, 0)
	idle           = newClass(CodeIdleTimeout, http.StatusGatewayTimeout, 0)
	tooSlow        = newClass("codex_too_slow", http.StatusGatewayTimeout, 0)
)

// The classes of errors of this server.
var (
	invalid          = newClass(CodeInvalidValue, http.StatusBadRequest, 0)
	unsupported      = newClass(CodeUnsupportedParameter, http.StatusBadRequest, 0)
	invalidImageURL  = newClass("invalid_image_url", http.StatusBadRequest, 0)
	previousNotFound = newClass("previous_response_not_found", http.StatusBadRequest, 0).of("previous_response_id")
	notCancellable   = newClass(CodeResponseNotCancellable, http.StatusBadRequest, 0)
	socketTooOld     = newClass("websocket_connection_limit_reached", http.StatusBadRequest, 0)
	noKey            = newClass(CodeInvalidAPIKey, http.StatusUnauthorized, 0)
	keyExpired       = newClass(CodeAPIKeyExpired, http.StatusUnauthorized, 0)
	otherOrigin      = newClass("origin_not_allowed", http.StatusForbidden, 0)
	otherHost        = newClass("host_not_allowed", http.StatusForbidden, 0)
	notFound         = newClass(CodeNotFound, http.StatusNotFound, 0)
	unknownURL       = newClass("unknown_url", http.StatusNotFound, 0)
	noResponse       = newClass("response_not_found", http.StatusNotFound, 0)
	noConversation   = newClass("conversation_not_found", http.StatusNotFound, 0).of("conversation")
	otherMethod      = newClass("method_not_allowed", http.StatusMethodNotAllowed, 0)
	slowBody         = newClass("request_timeout", http.StatusRequestTimeout, 0)
	bodyTooLarge     = newClass("request_too_large", http.StatusRequestEntityTooLarge, 0)
	otherEncoding    = newClass("unsupported_content_encoding", http.StatusUnsupportedMediaType, 0)
	queueFull        = newClass(CodeQueueFull, http.StatusTooManyRequests, soon)
	socketsFull      = newClass(CodeQueueFull, http.StatusServiceUnavailable, soon)
	clientClosed     = newClass("client_closed_request", 499, 0) // nginx's, there is no official one
	internal         = newClass("internal_error", http.StatusInternalServerError, 0)
	answerTooLarge   = newClass("answer_too_large", http.StatusBadGateway, never)
	answerMemory     = newClass("codex_answer_memory", http.StatusServiceUnavailable, afterQueue)
	bodyMemory       = newClass("codex_body_memory", http.StatusServiceUnavailable, afterQueue)
	queueTimeout     = newClass("codex_queue_timeout", http.StatusServiceUnavailable, afterQueue)
	storeFailed      = newClass("response_store_unavailable", http.StatusServiceUnavailable, soon)
	shuttingDown     = newClass("server_shutting_down", http.StatusServiceUnavailable, soon)
)

// of returns the class for a field of the request.
func (c class) of(param string) class {
	c.param = param
	return c
}

// error returns an error of the class with a message.
func (c class) error(message string) *Error {
	e := &Error{Status: c.status, Message: message, Type: c.kind(), Param: c.param, Code: c.code, RetryAfter: c.retry}
	if c.retry == never {
		e.RetryAfter, e.ShouldRetry = 0, new(bool)
	}
	return e
}

// errorf is error with a formatted message.
func (c class) errorf(format string, args ...any) *Error {
	return c.error(fmt.Sprintf(format, args...))
}

// kind returns the type of the errors.
func (c class) kind() string {
	switch {
	case c.code == CodeInsufficientQuota:
		return TypeQuota
	case c.status == http.StatusForbidden:
		return TypePermission
	case c.status == http.StatusTooManyRequests:
		return TypeRateLimit
	case c.status >= http.StatusInternalServerError:
		return TypeServer
	}
	return TypeInvalidRequest
}

// The labels of codes that are not this server's.
const (
	LabelInvalid = "invalid_request" // a request that is wrong, without a code
	LabelOther   = "other"           // a code of the provider's
)

// Labels returns all values of [Code.Label].
func Labels() []string {
	all := []string{LabelInvalid, LabelOther}
	for _, c := range slices.Sorted(maps.Keys(codes)) {
		all = append(all, string(c))
	}
	return all
}

// Label returns the code if it is one of this server's, or else LabelInvalid or
// LabelOther. Metrics need a bounded number of values.
func (c Code) Label() string {
	switch {
	case codes[c]:
		return string(c)
	case c == "":
		return LabelInvalid
	}
	return LabelOther
}
