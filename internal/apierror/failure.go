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

// sentinels maps errors that have no details to their classes. The order matters: an
// idle timeout may wrap a failure of the turn.
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
	{codexrpc.ErrNotLoggedIn, unauthorized},
	{codexrpc.ErrTooSlow, errorClass{status: http.StatusGatewayTimeout, kind: TypeServer, code: CodeTooSlow}},
	{codexrpc.ErrTimeout, timedOut},
}

// From converts err for the client. It knows *codexrpc.TurnError, *codexrpc.CallError,
// *appserver.NotReadyError, the sentinels of codexrpc and turn, and the errors of
// contexts. It returns an *[Error] as it is, and nil for nil. Anything else is a 500.
//
// The message is what Codex or the model's provider said, without URLs and network
// addresses, and without paths unless the provider said it of the request. Detail has
// the whole text.
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

// WithConversation is [From] for a request whose conversation is in this field.
func WithConversation(err error, field string) *Error {
	e := From(err)
	if e == nil || e.Param != ParamMessages {
		return e
	}
	named := *e
	named.Param = field
	return &named
}

// shown returns the text of a failure as clients may read it.
func shown(err error, e *Error) string {
	notReady, isNotReady := errors.AsType[*appserver.NotReadyError](err)
	_, isTurn := errors.AsType[*codexrpc.TurnError](err)
	switch {
	case isNotReady && e.Code == CodeNotReady:
		return notReadyMessage(&appserver.NotReadyError{State: notReady.State, Reason: notReady.Remedy, Final: notReady.Final})
	case e.Code == CodeExited:
		return codexrpc.ErrClosed.Error() // without what it wrote to stderr
	case e.Code == CodeMisconfigured:
		return configurationRemedy
	case e.Code == CodeUnauthorized:
		return signInAgain
	case e.Code == CodeInternal:
		return "The request failed within this server; its log says why."
	case isTurn && e.Status == http.StatusBadRequest:
		return withoutURLs(bounded(e.Message)) // it may name a field as a path
	}
	return withoutPaths(withoutURLs(bounded(e.Message)))
}

// classify returns the error of a failure, with the whole text.
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

// fromNotReady returns the 503 for an app-server that is not ready.
func fromNotReady(e *appserver.NotReadyError) *Error {
	if e.SignedOut {
		return unauthorized.error(e.Error())
	}
	v := errorClass{status: http.StatusServiceUnavailable, kind: TypeServer, code: CodeNotReady, final: e.Final}
	if !e.Final {
		v.retry = max(soon, e.RetryAfter)
	}
	return v.error(notReadyMessage(e))
}

func notReadyMessage(e *appserver.NotReadyError) string {
	message := strings.TrimSuffix(e.Error(), ".") + "."
	if !e.Final {
		message += " Please try again later; GET /readyz tells when it is ready."
	}
	return message
}

// codeInvalidRequest is the JSON-RPC code with which the app-server rejects what a
// client asked for.
const codeInvalidRequest = -32600

// misconfigured is part of what the app-server answers if its configuration is invalid.
// No client can mend that.
const misconfigured = "failed to load configuration"

// signInAgain is what clients are told if the provider refuses the login of the app-server,
// or if there is none.
const signInAgain = "This server is not signed in at the model's provider, or its login has ended. It is not about your API key. The operator of this server has to run `codex login` again, or to renew the provider's key."

// configurationRemedy is what clients are told then. The reason is in the log.
const configurationRemedy = "Codex does not take the configuration that the operator of this server gave it; the server's log says why."

// fromCall converts an error that the app-server answered.
func fromCall(e *codexrpc.CallError) *Error {
	var data struct {
		InputErrorCode string `json:"input_error_code"`
	}
	// Data of another shape leaves the field empty.
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
