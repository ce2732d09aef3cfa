package codexrpc

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

var (
	// ErrClosed is matched by the error of every call and turn of a connection that has ended, for
	// example because the app-server exited, closed its pipe or was stopped.
	ErrClosed = errors.New("the codex app-server connection has ended")

	// ErrTooSlow is the error of a turn whose queue overflowed since the consumer was too slow.
	ErrTooSlow = errors.New("the turn's events were not consumed fast enough")

	// ErrTimeout is matched by the error of a call that was not answered in time.
	ErrTimeout = errors.New("the codex app-server did not answer in time")

	// ErrUnresponsive is matched by the error of a connection that was ended because its app-server
	// was silent for too long. That error also matches ErrClosed.
	ErrUnresponsive = errors.New("the codex app-server does not answer")

	// ErrOverloaded is matched if the app-server has refused each attempt of a call (-32001).
	ErrOverloaded = errors.New("the codex app-server is overloaded")
)

const (
	codeMethodNotFound = -32601
	codeOverloaded     = -32001
)

// CallError is the app-server's refusal of a call: the error member of its answer.
type CallError struct {
	Method  string          // the method that was called
	Code    int             // the JSON-RPC code, for example -32600
	Message string          // the app-server's own text
	Data    json.RawMessage // the error's data member, verbatim; nil: there is none, or it is too long
}

// Error names the method, the app-server's message and the code.
func (e *CallError) Error() string {
	return fmt.Sprintf("codex %s: %s (%d)", e.Method, e.Message, e.Code)
}

// Is matches [ErrOverloaded] if the app-server has refused the call because of an overload.
func (e *CallError) Is(target error) bool {
	return target == ErrOverloaded && e.Code == codeOverloaded
}

// ErrNotLoggedIn is matched by an error of [Conn.CheckLogin] or [Conn.RenewLogin] if the model provider
// needs a login and there is none. Without a login, Codex would retry a turn for ever.
var ErrNotLoggedIn = errors.New("codex is not logged in")

// ErrMisconfigured is matched by an error of [Conn.CheckLogin] if Codex cannot use its
// configuration. Codex itself would use its defaults, perhaps with another model provider.
var ErrMisconfigured = errors.New("codex cannot use its configuration")

// ErrTooOld is matched by an error of [Conn.Initialize] if the release of Codex is too old.
var ErrTooOld = errors.New("is too old")

// The codes of a [TurnError] that is caused by the login.
const (
	CodeUsageLimit   = "usageLimitExceeded" // the plan of the login is spent
	CodeUnauthorized = "unauthorized"       // the provider refuses the login
)

// UntrustedCertificate is a part of the message of a [TurnError] whose cause is the certificate of the
// provider, or of a proxy before it.
const UntrustedCertificate = "certificate is not trusted"

// TurnError is the app-server's report of why a turn has failed (the protocol's TurnError).
type TurnError struct {
	// Message is Codex's own text.
	Message string
	// Code is the codexErrorInfo variant, such as "contextWindowExceeded" or "other".
	Code string
	// HTTPStatus is the HTTP status of the provider's answer, or 0 if the variant has none.
	HTTPStatus int
	// Details is the text in additionalDetails, often empty.
	Details string
	// ResetsAt is when the limit that caused the failure ends; zero: not known. For CodeUsageLimit,
	// the plan resets at this time. For other limits, a client may ask the provider again at this
	// time. The app-server sends the time only with some failures of pictures.
	ResetsAt time.Time
}

// Error returns Codex's message and the code.
func (e *TurnError) Error() string {
	return fmt.Sprintf("codex: %s (%s)", e.Message, e.Code)
}

// turnError reads a TurnError, or returns nil if the value is no object. codexErrorInfo is a string
// (the code), or an object whose one member is named by the code and may have an httpStatusCode.
func turnError(body wirejson.Value) *TurnError {
	if body.Kind() != wirejson.KindObject {
		return nil
	}
	// Members of an unexpected type stay empty.
	var v struct {
		Message, AdditionalDetails string
		CodexErrorInfo             json.RawMessage
	}
	_ = json.Unmarshal(body, &v)
	e := &TurnError{Message: truncate(v.Message, maxErrorText), Details: truncate(v.AdditionalDetails, maxErrorText)}
	if json.Unmarshal(v.CodexErrorInfo, &e.Code) != nil {
		var variants map[string]struct{ HTTPStatusCode int }
		_ = json.Unmarshal(v.CodexErrorInfo, &variants)
		for name, variant := range variants {
			e.Code, e.HTTPStatus = name, variant.HTTPStatusCode
		}
	}
	e.Code = cmp.Or(e.Code, "other")
	return e.withLimitCode()
}

// brokenOffPrefix and then planSpent begin Codex's message if the plan of the login is spent in the middle
// of an answer. planSpent is the text of the plan's back end.
const (
	brokenOffPrefix = "stream disconnected before completion: "
	planSpent       = "The usage limit has been reached"
)

// withLimitCode sets CodeUsageLimit if only the message says that the plan is spent.
func (e *TurnError) withLimitCode() *TurnError {
	if reason, ok := strings.CutPrefix(e.Message, brokenOffPrefix); ok && strings.HasPrefix(reason, planSpent) {
		e.Message, e.Code, e.HTTPStatus = reason, CodeUsageLimit, 0
	}
	return e
}

// maxErrorText bounds the message of an error, in bytes. A provider may answer with a whole HTML
// page, and the message goes to clients and to the log.
const maxErrorText = 16 << 10

// truncate returns a copy of text. Text above maxBytes bytes is cut there, and ends with an ellipsis.
func truncate(text string, maxBytes int) string {
	return strings.Clone(wirejson.Truncate(text, maxBytes))
}

// timeoutError returns the error of a call of this method that was not answered in time.
func timeoutError(method string) error { return fmt.Errorf("%s: %w", method, ErrTimeout) }
