package apierror

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// InvalidRequest is the 400 of a request with an error in the field param. An empty
// param stands for a header or for the whole request.
func InvalidRequest(param, message string) *Error {
	return &Error{Status: http.StatusBadRequest, Type: TypeInvalidRequest, Param: param, Message: message}
}

// InvalidImageURL is the 400 of an image that could not be fetched from its URL, for
// any reason. param is the field with the URL.
func InvalidImageURL(param, message string) *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: TypeInvalidRequest, Param: param, Code: CodeInvalidImageURL,
		Message: message,
	}
}

// BodyTimeout is the 408 of a request whose body came more slowly than rate, in bytes a
// second, or took longer than most. Caddy's own timeout may be shorter.
func BodyTimeout(rate int, most time.Duration) *Error {
	return &Error{
		Status: http.StatusRequestTimeout, Type: TypeInvalidRequest, Code: CodeRequestTimeout,
		Message: fmt.Sprintf("The request body came too slowly: it must come at %d bytes a second or more, and within %s.", rate, most),
	}
}

// AnswerTooLarge is the 502 of an answer that is put together here and has more than
// limit bytes. Another try would cost as much again.
func AnswerTooLarge(limit int64) *Error {
	return &Error{
		Status: http.StatusBadGateway, Type: TypeServer, Code: CodeAnswerTooLarge,
		Message:     fmt.Sprintf("The model's answer is larger than the limit of %d bytes for answers that are put together here. A stream of chat completions has no such limit.", limit),
		ShouldRetry: new(bool),
	}
}

// AnswerMemory is the 503 of an answer for which there is no memory, because of other
// answers that are put together here.
func AnswerMemory() *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Type: TypeServer, Code: CodeAnswerMemory,
		Message:    "Other answers that are put together take all the memory that there is for them here. Please try again later; a stream of chat completions takes none.",
		RetryAfter: laterAfterQueue,
	}
}

// BodyMemory is the 503 of a request for whose body there is no memory, because of
// other bodies.
func BodyMemory() *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Type: TypeServer, Code: CodeBodyMemory,
		Message:    "The bodies of other requests take all the memory that there is for them here. Please try again in a moment.",
		RetryAfter: laterAfterQueue,
	}
}

// ClientGone stands for a client that left before the end, in logs and metrics. There
// is no official status for that; 499 is nginx's.
func ClientGone() *Error {
	return &Error{
		Status: 499, Type: TypeInvalidRequest, Code: CodeClientClosed,
		Message: "The client closed the connection before the answer was complete.",
	}
}

// QueueFull is the 429 of a request that finds the queue full. Its code differs from
// that of the provider's limits.
func QueueFull() *Error {
	return &Error{
		Status: http.StatusTooManyRequests, Type: TypeRateLimit, Code: CodeQueueFull,
		Message:    "Too many requests are running or waiting here. Please try again in a moment.",
		RetryAfter: time.Second,
	}
}

// QueueTimeout is the 503 of a request that has waited in the queue for as long as it
// may. It is no 429, since the caller has reached no limit of its own.
func QueueTimeout(wait time.Duration) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Type: TypeServer, Code: CodeQueueTimeout,
		Message:    fmt.Sprintf("No turn could be run here within %s: all places are taken, or all that one user may take. Please try again later.", wait),
		RetryAfter: laterAfterQueue,
	}
}

// laterAfterQueue is the advice after such a wait: who comes back at once would only
// wait again.
const laterAfterQueue = 5 * time.Second

// TooManyChoices is the 400 of a request for more choices than turns may run at once,
// for all users or for one.
func TooManyChoices(choices, limit int) *Error {
	return InvalidRequest("n", fmt.Sprintf("n must be at most %d here, not %d: that many turns may run at once.", limit, choices))
}

// PayloadTooLarge is the 413 of a body of more than limit bytes.
func PayloadTooLarge(limit int64) *Error {
	return &Error{
		Status: http.StatusRequestEntityTooLarge, Type: TypeInvalidRequest, Code: CodeRequestTooLarge,
		Message: fmt.Sprintf("The request body is larger than the limit of %d bytes.", limit),
	}
}

// TooManySockets is the 503 of a WebSocket above the number that is served.
func TooManySockets() *Error {
	return errorClass{status: http.StatusServiceUnavailable, kind: TypeServer, code: CodeQueueFull, retry: soon}.error("Too many WebSockets are open here. Please try again later, or use POST.")
}

// SocketTooOld is the 400 of a request over a WebSocket that takes no more. Its code is
// OpenAI's, at which Codex connects again.
func SocketTooOld() *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: TypeInvalidRequest, Code: CodeSocketTooOld,
		Message: "The WebSocket is an hour old and takes no more requests. Please connect again.",
	}
}

// UnsupportedEncoding is the 415 of a body in a Content-Encoding that is not read.
func UnsupportedEncoding(encoding string) *Error {
	return &Error{
		Status: http.StatusUnsupportedMediaType, Type: TypeInvalidRequest, Code: CodeUnsupportedEncoding,
		Message: fmt.Sprintf("The Content-Encoding %.64q is not supported. Send the body as it is, or as gzip or zstd.", encoding),
	}
}

// CorruptBody is the 400 of a body that is not what its Content-Encoding says.
func CorruptBody(encoding string) *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: TypeInvalidRequest, Code: CodeInvalidValue,
		Message: fmt.Sprintf("The request body is not in its Content-Encoding, %s.", encoding),
	}
}

// Unauthorized is the 401 of a request without a key, or with a wrong one.
func Unauthorized() *Error {
	return &Error{
		Status: http.StatusUnauthorized, Type: TypeInvalidRequest, Code: CodeInvalidAPIKey,
		Message: "The API key is missing or wrong. Send it as: Authorization: Bearer KEY, or in the header api-key or x-api-key.",
	}
}

// KeyExpired is the 401 of a key that was valid until a time.
func KeyExpired(at time.Time) *Error {
	return &Error{
		Status: http.StatusUnauthorized, Type: TypeInvalidRequest, Code: CodeAPIKeyExpired,
		Message: fmt.Sprintf("The API key expired at %s. Ask the operator of this server for a new one.", at.UTC().Format(time.RFC3339)),
	}
}

// KeyLimit is a limit of an API key that a request would exceed.
type KeyLimit struct {
	Unit   string // requests or tokens
	Max    int64
	Window string        // such as 1m or day
	Used   int64         // of Max
	Wanted int64         // by the request
	Resets time.Duration // until the request can succeed; 0: never, it wants more than Max
}

// patience is up to when SDKs wait for a Retry-After.
const patience = time.Minute

// Exceeded is the 429 of a request beyond the limit.
func (l KeyLimit) Exceeded() *Error {
	e := &Error{Status: http.StatusTooManyRequests, Type: TypeRateLimit, Code: CodeRateLimit, RetryAfter: l.Resets}
	limit := fmt.Sprintf("%d %s in a window of %s", l.Max, l.Unit, l.Window)
	if l.Resets == 0 {
		e.Message = fmt.Sprintf("The request needs about %d %s. That is more than this API key may ever use at once: its limit is %s.", l.Wanted, l.Unit, limit)
	} else {
		e.Message = fmt.Sprintf("Rate limit reached for this API key: the limit is %s, used %d, requested %d. Please try again in %s.",
			limit, l.Used, l.Wanted, max(time.Second, l.Resets.Round(time.Second)))
	}
	if l.Resets == 0 || l.Resets > patience {
		e.ShouldRetry = new(bool)
	}
	return e
}

// KeyConcurrency is the 429 of a request of a key that has as many turns running or
// waiting as it may.
func KeyConcurrency(limit int) *Error {
	return rateLimited.error(fmt.Sprintf("Rate limit reached for this API key: it may have %d answers under way at once. Please try again in a moment.", limit))
}

// OriginNotAllowed is the 403 of a preflight by a page that may not use this API. The
// page cannot read it, but its developer can.
func OriginNotAllowed(origin string) *Error {
	return &Error{
		Status: http.StatusForbidden, Type: TypePermission, Code: CodeOriginNotAllowed,
		Message: fmt.Sprintf("Pages of the origin %.256q may not use this API.", origin),
	}
}

// HostNotAllowed is the 403 of a request without a key to a host name that the operator
// has not listed.
func HostNotAllowed(host string) *Error {
	return &Error{
		Status: http.StatusForbidden, Type: TypePermission, Code: CodeHostNotAllowed,
		Message: fmt.Sprintf("Without an API key this server does not answer to the name %.200q. Its operator can list the name in the option hosts, or configure an api_key.", host),
	}
}

// NotFound is the 404 of a path below /v1 that is no route.
func NotFound(method, path string) *Error {
	e := &Error{
		Status: http.StatusNotFound, Type: TypeInvalidRequest, Code: CodeUnknownURL,
		Message: fmt.Sprintf("Unknown request URL: %.32s %.256s. This server has /v1/chat/completions, /v1/completions, /v1/responses, /v1/conversations, /v1/models and /v1/usage.", method, path),
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
	if what := elsewhere[first]; what != "" {
		e.Message = fmt.Sprintf("Codex has no %s, so this server has no %.32s %.256s. Its operator can pass such paths to another provider, see docs/openai.md.", what, method, path)
	}
	return e
}

// elsewhere are the parts of OpenAI's API that Codex cannot serve, by the begin of their
// paths.
var elsewhere = map[string]string{
	"embeddings": "embeddings", "audio": "speech", "images": "image API", "files": "files", "uploads": "files",
	"batches": "batches", "moderations": "moderation", "fine_tuning": "fine-tuning", "vector_stores": "vector stores",
	"assistants": "assistants", "threads": "assistants", "realtime": "realtime API", "videos": "videos",
}

// NoCompaction is the 404 of a request to compact a conversation.
func NoCompaction() *Error {
	return &Error{
		Status: http.StatusNotFound, Type: TypeInvalidRequest, Code: CodeUnknownURL,
		Message: "Codex cannot compact a conversation for a client, so this server has no POST /v1/responses/compact. Ask the model for a summary with POST /v1/responses, and begin a new conversation with that.",
	}
}

// NotTheAPI is the 404 of a path that is not of this API and that nobody else on the site
// answers.
func NotTheAPI(method, path, baseURL string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: TypeInvalidRequest, Code: CodeUnknownURL,
		Message: fmt.Sprintf("This is an OpenAI-compatible API with the base URL %.256s; there is nothing at %.32s %.256s.", baseURL, method, path),
	}
}

// ModelNotFound is the 404 of a model that is not offered.
func ModelNotFound(model string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: TypeInvalidRequest, Param: "model", Code: CodeModelNotFound,
		Message: fmt.Sprintf("The model %.128q does not exist here, or your key may not use it. GET /v1/models lists those that do.", model),
	}
}

// maxNamed is how many models an error names.
const maxNamed = 12

// WithModels returns the error with the names of the models that there are, of which it
// takes the first few.
func (e *Error) WithModels(names []string) *Error {
	text, more := "", ""
	if len(names) > maxNamed {
		names, more = names[:maxNamed], " and others"
	}
	for i, name := range names {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%.64s", name)
	}
	if text == "" {
		return e
	}
	named := *e
	named.Message = strings.TrimRight(e.Message, ". \n") + ". The models here are: " + text + more + "."
	return &named
}

// MethodNotAllowed is the 405 of a route that has only the methods in allow, a list
// separated by commas.
func MethodNotAllowed(method, path, allow string) *Error {
	return &Error{
		Status: http.StatusMethodNotAllowed, Type: TypeInvalidRequest, Code: CodeMethodNotAllowed,
		Message: fmt.Sprintf("%.32s is not a method of %.256s; use %s.", method, path, allow),
		allow:   allow,
	}
}
