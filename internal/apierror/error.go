// Package apierror defines the errors of the API: an [Error] has OpenAI's shape, an HTTP status and
// advice about retrying. Failures of Codex and of turns become such errors in internal/failures.
package apierror

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// The types of errors in OpenAI's API, which SDKs know.
const (
	TypeInvalidRequest = "invalid_request_error"
	TypePermission     = "permission_error"
	TypeRateLimit      = "rate_limit_error"
	TypeQuota          = "insufficient_quota"
	TypeServer         = "server_error"
)

// Error is an error of the API (ErrorResponse), with its status. Only the function that made it changes it.
type Error struct {
	Status  int    // the HTTP status
	Message string // for the client; if it is a text of Codex, without the parts that clients must not see
	Detail  string // the whole text of the failure, for the operator's log; empty if the request is at fault
	Type    string // for example "invalid_request_error"
	Param   string // the request's field that is wrong, like "messages[2].content"; empty: null in the JSON
	Code    Code   // for example "model_not_found"; empty: null in the JSON
	// RetryAfter is how long SDKs should wait before they try again. 0: no advice. It is no header if
	// ShouldRetry is false: an SDK that knows only Retry-After would wait, and try again in vain.
	RetryAfter time.Duration
	// ShouldRetry tells SDKs whether to try again. Nil: SDKs decide by the status.
	ShouldRetry *bool
	Spent       bool // the plan of the login has nothing left for the model, so another handler may serve the request

	allow string // the header Allow of a 405 error: the methods that are allowed; empty: no header
}

// Error returns the message, the status and the code.
func (e *Error) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("%s (%d)", e.Message, e.Status)
	}
	return fmt.Sprintf("%s (%d %s)", e.Message, e.Status, e.Code)
}

// errorBody is an error in OpenAI's API (the schema Error). Its four members are always present.
type errorBody struct {
	Message string  `json:"message"`
	Type    *string `json:"type"`
	Param   *string `json:"param"`
	Code    *Code   `json:"code"`
}

// Body returns the body of the response: an object with the error as "error" (ErrorResponse).
func (e *Error) Body() []byte {
	return wirejson.Append(nil, struct {
		Error errorBody `json:"error"`
	}{errorBody{e.Message, wirejson.OrNull(e.Type), wirejson.OrNull(e.Param), wirejson.OrNull(e.Code)}})
}

// SetHeaders sets the content type, advice about retrying, the allowed methods, and for a 401
// WWW-Authenticate. Retry-After has whole seconds; SDKs prefer Retry-After-Ms.
func (e *Error) SetHeaders(h http.Header) {
	h.Set("Content-Type", "application/json")
	if e.RetryAfter > 0 && (e.ShouldRetry == nil || *e.ShouldRetry) {
		h.Set("Retry-After", strconv.FormatFloat(math.Ceil(e.RetryAfter.Seconds()), 'f', 0, 64))
		h.Set("Retry-After-Ms", strconv.FormatInt(max(1, e.RetryAfter.Milliseconds()), 10))
	}
	if e.ShouldRetry != nil {
		h.Set("X-Should-Retry", strconv.FormatBool(*e.ShouldRetry))
	}
	if e.allow != "" {
		h.Set("Allow", e.allow)
	}
	if e.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
}

// Encoder encodes an error in another API's form. It returns status and body, and may set headers.
type Encoder func(e *Error, h http.Header) (status int, body []byte)

// EncoderKey is the context key of a request's [Encoder]. Without an Encoder, errors have OpenAI's form.
type EncoderKey struct{}

// Respond writes the error as the response to r, in the form of the [Encoder] of r. If r has no
// Encoder, the error has OpenAI's form. Respond returns an error if the body cannot be written.
func (e *Error) Respond(w http.ResponseWriter, r *http.Request) error {
	e.SetHeaders(w.Header())
	status, body := e.Status, []byte(nil)
	if encode, ok := r.Context().Value(EncoderKey{}).(Encoder); ok && encode != nil {
		status, body = encode(e, w.Header())
	} else {
		body = e.Body()
	}
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// Code is the code of an [Error]. Clients distinguish errors by their codes.
type Code string

// The codes of this server that other packages use. Further codes are literals in calls of NewClass. An
// error 400 of the model's provider can also have a code of the provider.
const (
	CodeAPIKeyExpired          Code = "api_key_expired"
	CodeCodexOverloaded        Code = "codex_overloaded"
	CodeContextLength          Code = "context_length_exceeded"
	CodeExited                 Code = "codex_exited"
	CodeForbidden              Code = "codex_forbidden"
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
	CodeServerOverloaded       Code = "server_overloaded"
	CodeUnauthorized           Code = "codex_unauthorized"
	CodeUnsupportedParameter   Code = "unsupported_parameter"
	CodeUpstreamDisconnected   Code = "upstream_disconnected"
	CodeUpstreamError          Code = "upstream_error"
)

// codes has all codes of this server: those without a class, and those that NewClass adds.
var codes = map[Code]bool{
	CodeInvalidJSON: true, CodeInvalidType: true, CodeMissingParameter: true, CodeResponseCancelled: true,
}

// Class is a kind of errors: an [Error] without a message, with all else that these errors share.
type Class Error

// Values for the argument retry of [NewClass].
const (
	Never      time.Duration = -1          // another attempt is of no use, whatever the status says
	Soon                     = time.Second // another attempt may help, but it is not known when
	afterQueue               = 5 * time.Second
)

// MaxRetryAfter is the longest Retry-After that SDKs obey.
const MaxRetryAfter = time.Minute

// ParamMessages is the Param of errors that mean that the conversation is too long.
const ParamMessages = "messages"

// WithConversation returns e for a request whose conversation is not in the field messages, but in
// field: if the Param of e is [ParamMessages], the returned error has field as its Param. e may be nil.
func (e *Error) WithConversation(field string) *Error {
	if e == nil || e.Param != ParamMessages {
		return e
	}
	moved := *e
	moved.Param = field
	return &moved
}

// NewClass returns a class, and adds the code to codes. retry is how long a client should wait before it
// tries again. It may also be Never, or 0 for no advice.
func NewClass(code Code, status int, retry time.Duration) Class {
	codes[code] = true
	c := Class{Code: code, Status: status, Type: TypeOf(code, status), RetryAfter: retry}
	if retry == Never {
		c.RetryAfter, c.ShouldRetry = 0, new(bool) // false
	}
	return c
}

// The classes that other packages use as well.
var (
	// BadRequest is the class of wrong requests. Its errors have no code.
	BadRequest = Class{Status: http.StatusBadRequest, Type: TypeInvalidRequest}
	// ContextTooLong is the class of conversations that are too long.
	ContextTooLong = NewClass(CodeContextLength, http.StatusBadRequest, 0).Of(ParamMessages)
	// NoSuchModel is the class of requests for models that are not offered.
	NoSuchModel = NewClass(CodeModelNotFound, http.StatusNotFound, 0).Of("model")
	// RateLimited is the class of requests that exceed a limit. They may succeed later.
	RateLimited = NewClass("rate_limit_exceeded", http.StatusTooManyRequests, Soon)
	// PassedOn is the class of requests that the next handler serves. It is for counts: no client gets it.
	PassedOn = NewClass("spent_next", http.StatusTooManyRequests, Never)
	// TimedOut is the class of requests whose answer has taken too long.
	TimedOut = NewClass("codex_timeout", http.StatusGatewayTimeout, 0)
)

// The classes that only this package uses.
var (
	invalid          = NewClass(CodeInvalidValue, http.StatusBadRequest, 0)
	unsupported      = NewClass(CodeUnsupportedParameter, http.StatusBadRequest, 0)
	invalidImageURL  = NewClass("invalid_image_url", http.StatusBadRequest, 0)
	previousNotFound = NewClass("previous_response_not_found", http.StatusBadRequest, 0).Of("previous_response_id")
	keyExpired       = NewClass(CodeAPIKeyExpired, http.StatusUnauthorized, 0)
	unknownURL       = NewClass("unknown_url", http.StatusNotFound, 0)
	wrongMethod      = NewClass("method_not_allowed", http.StatusMethodNotAllowed, 0)
	storeFailed      = NewClass("response_store_unavailable", http.StatusServiceUnavailable, Soon)
)

// Of returns a copy of the class, for errors about the field param of a request.
func (c Class) Of(param string) Class {
	c.Param = param
	return c
}

// New returns an error of the class with a message.
func (c Class) New(message string) *Error {
	c.Message = message
	return (*Error)(&c)
}

// Newf does the same as New, with a format for the message.
func (c Class) Newf(format string, args ...any) *Error {
	return c.New(fmt.Sprintf(format, args...))
}

// TypeOf returns the type of an error with this code and status.
func TypeOf(code Code, status int) string {
	switch {
	case code == CodeInsufficientQuota:
		return TypeQuota
	case status == http.StatusForbidden:
		return TypePermission
	case status == http.StatusTooManyRequests:
		return TypeRateLimit
	case status >= http.StatusInternalServerError:
		return TypeServer
	}
	return TypeInvalidRequest
}

// The values of [Code.Label] for codes that this server does not define.
const (
	LabelInvalid = "invalid_request" // an error without a code: the request is wrong
	LabelOther   = "other"           // a code of the model's provider
)

// Labels returns all values of [Code.Label].
func Labels() []string {
	all := []string{LabelInvalid, LabelOther}
	for _, c := range slices.Sorted(maps.Keys(codes)) {
		all = append(all, string(c))
	}
	return all
}

// Label returns the label of metrics for the code: the code itself if this server defines it,
// LabelInvalid if the code is empty, otherwise LabelOther. So a label has a bounded number of values.
func (c Code) Label() string {
	switch {
	case codes[c]:
		return string(c)
	case c == "":
		return LabelInvalid
	}
	return LabelOther
}
