// Package apierror defines the errors of the API: an [Error] has OpenAI's shape, an
// HTTP status and advice about retrying.
//
// [From] converts failures of Codex and of turns. The other functions make the errors
// of this server.
package apierror

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// The types of errors that OpenAI documents and SDKs know.
const (
	TypeInvalidRequest = "invalid_request_error"
	TypePermission     = "permission_error"
	TypeRateLimit      = "rate_limit_error"
	TypeQuota          = "insufficient_quota"
	TypeServer         = "server_error"
)

// Error is an error of the API (ErrorResponse) with its HTTP status and headers. It
// must not be changed once it is in use.
type Error struct {
	Status  int    // the HTTP status
	Message string // a sentence for the client; Codex's own text where there is one, without what is not for clients
	Detail  string // the whole text, for the operator's log, of a failure that is not the request's; else empty
	Type    string // for example "invalid_request_error"
	Param   string // the request's field, like "messages[2].content"; empty: null
	Code    Code   // for example "model_not_found"; empty: null
	// RetryAfter is when SDKs should try again. 0: no advice.
	RetryAfter time.Duration
	// ShouldRetry overrides the decision that SDKs make by the status. Nil: no
	// override.
	ShouldRetry *bool

	allow string // the methods of a 405
}

// Error returns the message, the status and the code.
func (e *Error) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("%s (%d)", e.Message, e.Status)
	}
	return fmt.Sprintf("%s (%d %s)", e.Message, e.Status, e.Code)
}

// body is an Error of OpenAI's description. All four members are always there.
type body struct {
	Message string  `json:"message"`
	Type    *string `json:"type"`
	Param   *string `json:"param"`
	Code    *Code   `json:"code"`
}

// Body returns the error as a JSON object (ErrorResponse).
func (e *Error) Body() []byte {
	return jsontext.Append(nil, struct {
		Error body `json:"error"`
	}{body{e.Message, jsontext.OrNull(e.Type), jsontext.OrNull(e.Param), jsontext.OrNull(e.Code)}})
}

// SetHeaders sets the content type and the headers about retrying. Retry-After is in
// whole seconds; SDKs prefer Retry-After-Ms, which is set as well.
func (e *Error) SetHeaders(h http.Header) {
	h.Set("Content-Type", "application/json")
	if e.RetryAfter > 0 {
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

// Respond writes the headers, the status and the body. It returns the error of the
// connection.
func (e *Error) Respond(w http.ResponseWriter) error {
	e.SetHeaders(w.Header())
	w.WriteHeader(e.Status)
	_, err := w.Write(e.Body())
	return err
}
