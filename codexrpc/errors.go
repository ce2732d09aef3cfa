package codexrpc

import (
	"encoding/json"
	"errors"
	"fmt"
)

var (
	// ErrClosed is matched by what every call and turn of a connection gets
	// once that connection has ended: the app-server exited, or closed its
	// pipe, or was stopped.
	ErrClosed = errors.New("the codex app-server connection has ended")

	// ErrTooSlow ends a turn whose consumer fell behind by more than the bound
	// of the turn's queue.
	ErrTooSlow = errors.New("the turn's events were not consumed fast enough")

	// ErrTimeout is matched by a call that the app-server did not answer in
	// time.
	ErrTimeout = errors.New("the codex app-server did not answer in time")

	// ErrUnresponsive is matched, beside ErrClosed, by what every call and turn of a
	// connection gets whose app-server was silent for too long.
	ErrUnresponsive = errors.New("the codex app-server does not answer")

	// ErrOverloaded is matched by a call that the app-server refused as
	// overloaded (-32001) until the retries were used up.
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

// tooLargeCall refuses a call that the way to the app-server is too narrow for, in
// the app-server's own terms for an input that is too large.
func tooLargeCall(method string, size, limit int) *CallError {
	return &CallError{
		Method:  method,
		Code:    codeInvalidParams,
		Message: fmt.Sprintf("the conversation is too large for a remote app-server: %d bytes, of %d at most", size, limit),
		Data:    json.RawMessage(`{"input_error_code":"input_too_large"}`),
	}
}

// ErrNotLoggedIn says that the model provider needs a login and nobody is
// logged in. Without this check a turn would retry for ever.
var ErrNotLoggedIn = errors.New("codex is not logged in")

// What keeps a connection from being made or used.
var (
	// ErrTooOld is matched when the release of Codex lacks what is needed.
	ErrTooOld = errors.New("is too old")
	// ErrUnreachable is matched when nobody answers at an address.
	ErrUnreachable = errors.New("cannot connect")
	// ErrRefused is matched when whoever answers there refuses the connection.
	ErrRefused = errors.New("refused the connection")
)
