package apierror

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// sentinels are the verdicts on errors without more to them than their kind, in
// the order in which they are tried: an idle timeout may carry a failure of the
// turn along.
var sentinels = []struct {
	err error
	errorClass
}{
	{turn.ErrIdle, errorClass{status: http.StatusGatewayTimeout, kind: TypeServer, code: CodeIdleTimeout}},
	{turn.ErrCompacted, tooLong},
	{turn.ErrInterrupted, errorClass{status: http.StatusServiceUnavailable, kind: TypeServer, code: CodeInterrupted, retry: soon}},
	{turn.ErrShutdown, errorClass{status: http.StatusServiceUnavailable, kind: TypeServer, code: CodeShuttingDown, retry: soon}},
	{codexrpc.ErrOverloaded, errorClass{status: http.StatusServiceUnavailable, kind: TypeServer, code: CodeOverloaded, retry: soon}},
	{codexrpc.ErrUnresponsive, errorClass{status: http.StatusServiceUnavailable, kind: TypeServer, code: CodeUnresponsive, retry: soon}},
	{codexrpc.ErrClosed, errorClass{status: http.StatusServiceUnavailable, kind: TypeServer, code: CodeExited, retry: soon}},
	{codexrpc.ErrTooSlow, errorClass{status: http.StatusGatewayTimeout, kind: TypeServer, code: CodeTooSlow}},
	{codexrpc.ErrTimeout, timedOut},
}

// From returns the error that tells a client of err: a
// *codexrpc.TurnError, *codexrpc.CallError, *appserver.NotReadyError, a sentinel of
// codexrpc or turn, a context's error, or an *[Error], which is returned as it
// is. Anything else is a 500. FromFailure(nil) is nil.
//
// What Codex or the model's provider said reaches the client but for URLs,
// network addresses and, outside of what the provider says of a request, paths.
// The whole text is the Detail.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	e := classify(err)
	whole := e.Message
	e.Message = shown(err, e)
	if e.Status != http.StatusBadRequest && !errors.Is(err, context.Canceled) {
		e.Detail = whole // a 400 may quote the request
	}
	return e
}

// shown is the text of a failure as clients may read it.
func shown(err error, e *Error) string {
	notReady, isNotReady := errors.AsType[*appserver.NotReadyError](err)
	_, isTurn := errors.AsType[*codexrpc.TurnError](err)
	switch {
	case isNotReady:
		return notReadyMessage(&appserver.NotReadyError{State: notReady.State, Reason: notReady.Remedy})
	case e.Code == CodeExited:
		return codexrpc.ErrClosed.Error() // without what it wrote to stderr
	case e.Code == CodeMisconfigured:
		return configurationRemedy
	case e.Code == CodeInternal:
		return "The request failed within this server; its log says why."
	case isTurn && e.Status == http.StatusBadRequest:
		return withoutURLs(bounded(e.Message)) // it may name a field as a path
	}
	return withoutPaths(withoutURLs(bounded(e.Message)))
}

// classify gives a failure its status, type, code and retry advice, with its
// whole text.
func classify(err error) *Error {
	if notReady, ok := errors.AsType[*appserver.NotReadyError](err); ok {
		return fromNotReady(notReady)
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return s.error(err.Error())
		}
	}
	if failed, ok := errors.AsType[*codexrpc.TurnError](err); ok {
		return fromTurn(failed)
	}
	if refused, ok := errors.AsType[*codexrpc.CallError](err); ok {
		return fromCall(refused)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return ClientGone()
	case errors.Is(err, context.DeadlineExceeded):
		return timedOut.error(err.Error())
	}
	return errorClass{status: http.StatusInternalServerError, kind: TypeServer, code: CodeInternal}.error(err.Error())
}

// fromNotReady tells that there is no app-server for now, and when to come back.
func fromNotReady(e *appserver.NotReadyError) *Error {
	v := errorClass{status: http.StatusServiceUnavailable, kind: TypeServer, code: CodeNotReady}
	v.retry = max(soon, e.RetryAfter)
	return v.error(notReadyMessage(e))
}

func notReadyMessage(e *appserver.NotReadyError) string {
	return strings.TrimSuffix(e.Error(), ".") + ". Please try again later; GET /readyz tells when it is ready."
}

// codeInvalidRequest is JSON-RPC's code for a call that makes no sense, by which
// the app-server refuses what a client asked for.
const codeInvalidRequest = -32600

// misconfigured is what the app-server says of a thread when its own configuration
// makes no sense, which no client can mend.
const misconfigured = "failed to load configuration"

// configurationRemedy is what a client is told then. The log has the reason.
const configurationRemedy = "Codex does not take the configuration that the operator of this server gave it; the server's log says why."

// fromCall tells of a call that the app-server refused.
func fromCall(e *codexrpc.CallError) *Error {
	var data struct {
		InputErrorCode string `json:"input_error_code"`
	}
	// Data of another shape, or none, leaves the field empty.
	_ = json.Unmarshal(e.Data, &data)
	switch {
	case strings.Contains(e.Message, misconfigured):
		return errorClass{status: http.StatusServiceUnavailable, kind: TypeServer, code: CodeMisconfigured, final: true}.error(e.Message)
	case data.InputErrorCode == "input_too_large":
		return tooLong.error(e.Message)
	case e.Code == codeInvalidRequest:
		v := badRequest
		v.code = CodeRefused
		return v.error(e.Message)
	}
	return codexError.error(e.Error())
}
