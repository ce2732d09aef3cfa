package codexrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrClosed is matched by the error of every call and turn of a connection
	// that has ended: the app-server exited, closed its pipe or was stopped.
	ErrClosed = errors.New("the codex app-server connection has ended")

	// ErrTooSlow is the error of a turn whose queue overflowed, since its consumer
	// was too slow.
	ErrTooSlow = errors.New("the turn's events were not consumed fast enough")

	// ErrTimeout is matched by the error of a call that was not answered in time.
	ErrTimeout = errors.New("the codex app-server did not answer in time")

	// ErrUnresponsive is matched, like ErrClosed, by the error of a connection that was ended
	// because its app-server was silent for too long.
	ErrUnresponsive = errors.New("the codex app-server does not answer")

	// ErrOverloaded is matched by the error of a call that the app-server refused as overloaded
	// (-32001) and that is not tried again.
	ErrOverloaded = errors.New("the codex app-server is overloaded")
)

// The JSON-RPC error codes that this client reads or writes.
const (
	codeInvalidParams  = -32602
	codeMethodNotFound = -32601
	codeOverloaded     = -32001
)

// CallError is the app-server's refusal of a call: the error member of its
// answer.
type CallError struct {
	Method  string          // what was called
	Code    int             // the JSON-RPC code, for example -32600
	Message string          // the app-server's own text
	Data    json.RawMessage // the error's data member, verbatim; often absent
}

// Error names the method, the app-server's message and the code.
func (e *CallError) Error() string {
	return fmt.Sprintf("codex %s: %s (%d)", e.Method, e.Message, e.Code)
}

// Is makes a refusal for overload match [ErrOverloaded].
func (e *CallError) Is(target error) bool {
	return target == ErrOverloaded && e.Code == codeOverloaded
}

// tooLargeCall is the error of a call that is too large for the transport. It has
// the app-server's own code for an input that is too large.
func tooLargeCall(method string, size, limit int) *CallError {
	return &CallError{
		Method:  method,
		Code:    codeInvalidParams,
		Message: fmt.Sprintf("the conversation is too large for a remote app-server: %d bytes, of %d at most", size, limit),
		Data:    json.RawMessage(`{"input_error_code":"input_too_large"}`),
	}
}

// ErrNotLoggedIn is matched when the model provider needs a login and nobody is
// logged in. Without a login, a turn would retry for ever.
var ErrNotLoggedIn = errors.New("codex is not logged in")

// ErrMisconfigured is matched when Codex cannot use its configuration. With such a configuration,
// Codex would use its defaults, and so another model provider.
var ErrMisconfigured = errors.New("codex cannot use its configuration")

// Errors of [DialWebSocket] and [Conn.Initialize].
var (
	// ErrTooOld is matched when the release of Codex is too old for this client.
	ErrTooOld = errors.New("is too old")
	// ErrUnreachable is matched when nobody answers at an address.
	ErrUnreachable = errors.New("cannot connect")
	// ErrRefused is matched when the server at an address refuses the connection.
	ErrRefused = errors.New("the connection is refused")
)

// The codes of a [TurnError] whose cause is the login.
const (
	CodeUsageLimit   = "usageLimitExceeded" // the plan of the login is spent
	CodeUnauthorized = "unauthorized"       // the provider refuses the login
)

// TurnError is the app-server's reason for the failure of a turn (TurnError).
type TurnError struct {
	// Message is Codex's own text.
	Message string
	// Code is the name of the codexErrorInfo variant, for example
	// "contextWindowExceeded", "httpConnectionFailed" or "other".
	Code string
	// HTTPStatus is the HTTP status of the provider, if the variant has one; else 0.
	HTTPStatus int
	// Details is additionalDetails, often empty.
	Details string
	// ResetsAt is when the limit that caused the failure is over; zero: not known. A spent plan
	// (CodeUsageLimit) resets at that time; with other limits, the provider may be asked again
	// then. [Thread.ExplainLimit] sets ResetsAt. The app-server itself sends a time only for some
	// failures of pictures.
	ResetsAt time.Time
}

// Error gives Codex's message with its code.
func (e *TurnError) Error() string {
	return fmt.Sprintf("codex: %s (%s)", e.Message, e.Code)
}

// turnError reads a TurnError. It returns nil if the value is no object. The variant in
// codexErrorInfo is either a string, or the only key of an object whose value may have
// httpStatusCode.
func (s *scanner) turnError() *TurnError {
	if s.Peek() != '{' {
		s.Value()
		return nil
	}
	e := &TurnError{Code: "other"}
	for more := s.Object(); more; more = s.More('}') {
		switch s.Name() {
		case "message":
			e.Message = cut(s.Text(), maxSaying)
		case "additionalDetails":
			e.Details = cut(s.Text(), maxSaying)
		case "codexErrorInfo":
			s.errorInfo(e)
		default:
			s.Value()
		}
	}
	return e
}

// errorInfo reads the codexErrorInfo of a TurnError.
func (s *scanner) errorInfo(e *TurnError) {
	if s.Peek() == '"' {
		e.Code = strings.Clone(s.Text())
		return
	}
	for more := s.Object(); more; more = s.More('}') {
		e.Code = strings.Clone(s.Name())
		for more := s.Object(); more; more = s.More('}') {
			if s.Name() == "httpStatusCode" {
				e.HTTPStatus = int(s.Integer())
			} else {
				s.Value()
			}
		}
	}
}

// maxSaying bounds a text of an error, in bytes: a provider may answer with a whole page,
// and clients and the log repeat it.
const maxSaying = 16 << 10

// cut returns a copy of the first bytes of a text, with an ellipsis if there are more.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return strings.Clone(text)
	}
	return strings.ToValidUTF8(text[:bytes], "") + "…"
}

// timeoutError is the error of a call that was not answered in time. Its text is the name of the
// method.
type timeoutError string

func (e timeoutError) Error() string { return string(e) + ": " + ErrTimeout.Error() }

func (timeoutError) Unwrap() error { return ErrTimeout }
