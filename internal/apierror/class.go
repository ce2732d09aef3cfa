package apierror

import (
	"net/http"
	"time"
)

// errorClass has what all errors of a kind share: everything of an [Error] but its
// message.
type errorClass struct {
	status int
	kind   string // the type
	code   Code
	param  string
	retry  time.Duration
	final  bool // trying again is no use, whatever the status says
}

// soon is the advice to retry where nobody knows when it will help.
const soon = time.Second

// ParamMessages is the param of a conversation that is too long.
const ParamMessages = "messages"

// The classes that several failures share.
var (
	tooLong        = errorClass{status: http.StatusBadRequest, kind: TypeInvalidRequest, code: CodeContextLength, param: ParamMessages}
	badRequest     = errorClass{status: http.StatusBadRequest, kind: TypeInvalidRequest}
	noSuchModel    = errorClass{status: http.StatusNotFound, kind: TypeInvalidRequest, code: CodeModelNotFound, param: "model"}
	contentRefused = errorClass{status: http.StatusBadRequest, kind: TypeInvalidRequest, code: CodeContentPolicy}
	unauthorized   = errorClass{status: http.StatusServiceUnavailable, kind: TypeServer, code: CodeUnauthorized, final: true} // this server, not the client
	forbidden      = errorClass{status: http.StatusForbidden, kind: TypePermission, code: CodeForbidden, final: true}
	rateLimited    = errorClass{status: http.StatusTooManyRequests, kind: TypeRateLimit, code: CodeRateLimit, retry: soon}
	quotaSpent     = errorClass{status: http.StatusTooManyRequests, kind: TypeQuota, code: CodeInsufficientQuota, final: true}
	upstreamError  = errorClass{status: http.StatusInternalServerError, kind: TypeServer, code: CodeUpstreamError}
	overloaded     = errorClass{status: http.StatusServiceUnavailable, kind: TypeServer, code: CodeServerOverloaded, retry: soon}
	disconnected   = errorClass{status: http.StatusBadGateway, kind: TypeServer, code: CodeUpstreamDisconnected}
	timedOut       = errorClass{status: http.StatusGatewayTimeout, kind: TypeServer, code: CodeTimeout}
	codexError     = errorClass{status: http.StatusBadGateway, kind: TypeServer, code: CodeCodexError}
)

// error returns an error of the class with a message.
func (v errorClass) error(message string) *Error {
	e := &Error{
		Status: v.status, Message: message, Type: v.kind, Param: v.param, Code: v.code,
		RetryAfter: v.retry,
	}
	if v.final {
		e.ShouldRetry = new(bool)
	}
	return e
}

// classOfStatus returns the class of an HTTP status of the model's provider. 0 stands
// for no answer at all.
func classOfStatus(status int) errorClass {
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
	return errorClass{status: http.StatusBadGateway, kind: TypeServer, code: CodeUpstreamError}
}
