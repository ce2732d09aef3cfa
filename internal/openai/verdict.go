package openai

import (
	"net/http"
	"time"
)

// verdict is what a kind of failure means to a client: everything of an [Error]
// but its message.
type verdict struct {
	status int
	kind   string // the type
	code   Code
	param  string
	retry  time.Duration
	final  bool // trying again is no use, whatever the status says
}

// soon is the advice where trying again helps and nobody knows when.
const soon = time.Second

// The verdicts that several failures share.
var (
	tooLong        = verdict{status: http.StatusBadRequest, kind: typeInvalidRequest, code: CodeContextLength, param: "messages"}
	badRequest     = verdict{status: http.StatusBadRequest, kind: typeInvalidRequest}
	noSuchModel    = verdict{status: http.StatusNotFound, kind: typeInvalidRequest, code: CodeModelNotFound, param: "model"}
	contentRefused = verdict{status: http.StatusBadRequest, kind: typeInvalidRequest, code: CodeContentPolicy}
	unauthorized   = verdict{status: http.StatusUnauthorized, kind: typeAuthentication, code: CodeUnauthorized, final: true}
	forbidden      = verdict{status: http.StatusForbidden, kind: typePermission, code: CodeForbidden, final: true}
	rateLimited    = verdict{status: http.StatusTooManyRequests, kind: typeRateLimit, code: CodeRateLimit, retry: soon}
	quotaSpent     = verdict{status: http.StatusTooManyRequests, kind: typeQuota, code: CodeInsufficientQuota, final: true}
	upstreamError  = verdict{status: http.StatusInternalServerError, kind: typeServer, code: CodeUpstreamError}
	overloaded     = verdict{status: http.StatusServiceUnavailable, kind: typeServer, code: CodeServerOverloaded, retry: soon}
	disconnected   = verdict{status: http.StatusBadGateway, kind: typeServer, code: CodeUpstreamDisconnected}
	timedOut       = verdict{status: http.StatusGatewayTimeout, kind: typeServer, code: CodeTimeout}
	codexError     = verdict{status: http.StatusBadGateway, kind: typeServer, code: CodeCodexError}
)

// error completes the verdict by the message.
func (v verdict) error(message string) *Error {
	e := &Error{
		Status: v.status, Message: message, Type: v.kind, Param: v.param, Code: v.code,
		RetryAfter: v.retry,
	}
	if v.final {
		e.ShouldRetry = new(bool)
	}
	return e
}

// ofStatus is the verdict on an HTTP status of the model's provider.
func ofStatus(status int) verdict {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return badRequest
	case http.StatusUnauthorized:
		return unauthorized
	case http.StatusPaymentRequired:
		return quotaSpent
	case http.StatusForbidden:
		return forbidden
	case http.StatusNotFound:
		return noSuchModel
	case http.StatusRequestEntityTooLarge:
		return tooLong
	case http.StatusTooManyRequests:
		return rateLimited
	case http.StatusInternalServerError:
		return upstreamError
	case http.StatusServiceUnavailable:
		return overloaded
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return timedOut
	case 0:
		return disconnected
	}
	return verdict{status: http.StatusBadGateway, kind: typeServer, code: CodeUpstreamError}
}
