package apierror

import (
	"fmt"
	"strings"
	"time"
)

// InvalidRequest is the 400 of a request with an error in the field param. An empty
// param stands for a header or for the whole request.
func InvalidRequest(param, message string) *Error { return badRequest.of(param).error(message) }

// InvalidImageURL is the 400 of an image that could not be fetched from its URL, for
// any reason. param is the field with the URL.
func InvalidImageURL(param, message string) *Error { return invalidImageURL.of(param).error(message) }

// BodyTimeout is the 408 of a request whose body came more slowly than rate, in bytes a
// second, or took longer than most. Caddy's own timeout may be shorter.
func BodyTimeout(rate int, most time.Duration) *Error {
	return slowBody.errorf("The request body came too slowly: it must come at %d bytes a second or more, and within %s.", rate, most)
}

// AnswerTooLarge is the 502 of an answer that is put together here and has more than
// limit bytes. Another try would cost as much again.
func AnswerTooLarge(limit int64) *Error {
	return answerTooLarge.errorf("The model's answer is larger than the limit of %d bytes for answers that are put together here. A stream of chat completions has no such limit.", limit)
}

// AnswerMemory is the 503 of an answer for which there is no memory, because of other
// answers that are put together here.
func AnswerMemory() *Error {
	return answerMemory.error("Other answers that are put together take all the memory that there is for them here. Please try again later; a stream of chat completions takes none.")
}

// BodyMemory is the 503 of a request for whose body there is no memory, because of
// other bodies.
func BodyMemory() *Error {
	return bodyMemory.error("The bodies of other requests take all the memory that there is for them here. Please try again in a moment.")
}

// ClientGone stands for a client that left before the end, in logs and metrics.
func ClientGone() *Error {
	return clientClosed.error("The client closed the connection before the answer was complete.")
}

// QueueFull is the 429 of a request that finds the queue full. Its code differs from
// that of the provider's limits.
func QueueFull() *Error {
	return queueFull.error("Too many requests are running or waiting here. Please try again in a moment.")
}

// QueueTimeout is the 503 of a request that has waited in the queue for as long as it
// may. It is no 429, since the caller has reached no limit of its own. Who comes back at
// once would only wait again.
func QueueTimeout(wait time.Duration) *Error {
	return queueTimeout.errorf("No turn could be run here within %s: all places are taken, or all that one user may take. Please try again later.", wait)
}

// TooManyChoices is the 400 of a request for more choices than turns may run at once,
// for all users or for one.
func TooManyChoices(choices, limit int) *Error {
	return badRequest.of("n").errorf("n must be at most %d here, not %d: that many turns may run at once.", limit, choices)
}

// PayloadTooLarge is the 413 of a body of more than limit bytes.
func PayloadTooLarge(limit int64) *Error {
	return bodyTooLarge.errorf("The request body is larger than the limit of %d bytes.", limit)
}

// TooManySockets is the 503 of a WebSocket above the number that is served.
func TooManySockets() *Error {
	return socketsFull.error("Too many WebSockets are open here. Please try again later, or use POST.")
}

// SocketTooOld is the 400 of a request over a WebSocket that takes no more. Its code is
// OpenAI's, at which Codex connects again.
func SocketTooOld() *Error {
	return socketTooOld.error("The WebSocket is an hour old and takes no more requests. Please connect again.")
}

// UnsupportedEncoding is the 415 of a body in a Content-Encoding that is not read.
func UnsupportedEncoding(encoding string) *Error {
	return otherEncoding.errorf("The Content-Encoding %.64q is not supported. Send the body as it is, or as gzip or zstd.", encoding)
}

// CorruptBody is the 400 of a body that is not what its Content-Encoding says.
func CorruptBody(encoding string) *Error {
	return invalid.errorf("The request body is not in its Content-Encoding, %s.", encoding)
}

// Unauthorized is the 401 of a request without a key, or with a wrong one.
func Unauthorized() *Error {
	return noKey.error("The API key is missing or wrong. Send it as: Authorization: Bearer KEY, or in the header api-key or x-api-key.")
}

// KeyExpired is the 401 of a key that was valid until a time.
func KeyExpired(at time.Time) *Error {
	return keyExpired.errorf("The API key expired at %s. Ask the operator of this server for a new one.", at.UTC().Format(time.RFC3339))
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
	limit := fmt.Sprintf("%d %s in a window of %s", l.Max, l.Unit, l.Window)
	var e *Error
	if l.Resets == 0 {
		e = rateLimited.errorf("The request needs about %d %s. That is more than this API key may ever use at once: its limit is %s.", l.Wanted, l.Unit, limit)
	} else {
		e = rateLimited.errorf("Rate limit reached for this API key: the limit is %s, used %d, requested %d. Please try again in %s.",
			limit, l.Used, l.Wanted, max(time.Second, l.Resets.Round(time.Second)))
	}
	if e.RetryAfter = l.Resets; l.Resets == 0 || l.Resets > patience {
		e.ShouldRetry = new(bool)
	}
	return e
}

// KeyConcurrency is the 429 of a request of a key that has as many turns running or
// waiting as it may.
func KeyConcurrency(limit int) *Error {
	return rateLimited.errorf("Rate limit reached for this API key: it may have %d answers under way at once. Please try again in a moment.", limit)
}

// OriginNotAllowed is the 403 of a preflight by a page that may not use this API. The
// page cannot read it, but its developer can.
func OriginNotAllowed(origin string) *Error {
	return otherOrigin.errorf("Pages of the origin %.256q may not use this API.", origin)
}

// HostNotAllowed is the 403 of a request without a key to a host name that the operator
// has not listed.
func HostNotAllowed(host string) *Error {
	return otherHost.errorf("Without an API key this server does not answer to the name %.200q. Its operator can list the name in the option hosts, or configure an api_key.", host)
}

// NotFound is the 404 of a path below /v1 that is no route.
func NotFound(method, path string) *Error {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
	if what := elsewhere[first]; what != "" {
		return unknownURL.errorf("Codex has no %s, so this server has no %.32s %.256s. Its operator can pass such paths to another provider, see docs/openai.md.", what, method, path)
	}
	return unknownURL.errorf("Unknown request URL: %.32s %.256s. This server has /v1/chat/completions, /v1/completions, /v1/responses, /v1/conversations, /v1/models and /v1/usage.", method, path)
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
	return unknownURL.error("Codex cannot compact a conversation for a client, so this server has no POST /v1/responses/compact. Ask the model for a summary with POST /v1/responses, and begin a new conversation with that.")
}

// NotTheAPI is the 404 of a path that is not of this API and that nobody else on the site
// answers.
func NotTheAPI(method, path, baseURL string) *Error {
	return unknownURL.errorf("This is an OpenAI-compatible API with the base URL %.256s; there is nothing at %.32s %.256s.", baseURL, method, path)
}

// ModelNotFound is the 404 of a model that is not offered.
func ModelNotFound(model string) *Error {
	return noSuchModel.errorf("The model %.128q does not exist here, or your key may not use it. GET /v1/models lists those that do.", model)
}

// maxNamed is how many models an error names.
const maxNamed = 12

// WithModels returns the error with the names of the models that there are, of which it
// takes the first few.
func (e *Error) WithModels(names []string) *Error {
	if len(names) == 0 {
		return e
	}
	var shown []string
	for _, name := range names[:min(len(names), maxNamed)] {
		shown = append(shown, fmt.Sprintf("%.64s", name))
	}
	text := strings.Join(shown, ", ")
	if len(names) > maxNamed {
		text += " and others"
	}
	named := *e
	named.Message = strings.TrimRight(e.Message, ". \n") + ". The models here are: " + text + "."
	return &named
}

// MethodNotAllowed is the 405 of a route that has only the methods in allow, a list
// separated by commas.
func MethodNotAllowed(method, path, allow string) *Error {
	e := otherMethod.errorf("%.32s is not a method of %.256s; use %s.", method, path, allow)
	e.allow = allow
	return e
}

// ResponseNotFound is the 404 of a response that is not kept, or not for this user.
func ResponseNotFound(id string) *Error {
	return noResponse.errorf("There is no response with the id %.64q. Responses are kept when 'store' is not false, for a while, and for the user who made them.", id)
}

// NoStore is the 400 of a request whose field needs the store of responses, on a server
// that has none.
func NoStore(param string) *Error {
	return unsupported.of(param).errorf("'%s' needs stored responses, and this server stores none: its operator has set response_store to off.", param)
}

// NoEvents is the 400 of a request for the events of a response that are not kept, for
// the reason why.
func NoEvents(param, why string) *Error {
	return badRequest.of(param).errorf("The events of this response are not kept here%s; leave 'stream' out to read the response itself.", why)
}

// BackgroundTimeout is the 504 of a background response that has taken too long.
func BackgroundTimeout(most time.Duration) *Error {
	return timedOut.errorf("The response did not end within %s, which is the most for one in the background.", most)
}

// ConversationNotFound is the 404 of a conversation that is not kept, or not for this user.
func ConversationNotFound(id string) *Error {
	return noConversation.errorf("There is no conversation with the id %.64q. Conversations are kept for a while, unless response_store is off, and for the user who made them.", id)
}

// ConversationItemNotFound is the 404 of an item that a conversation does not have.
func ConversationItemNotFound(id, item string) *Error {
	return notFound.errorf("There is no item with the id %.128q in the conversation %.64q.", item, id)
}

// ConversationTooLong is the 400 of a conversation that is too large to be kept or used.
func ConversationTooLong() *Error {
	return tooLong.of("conversation").error("The conversation is too large.")
}

// PreviousTooLong is the 400 of a request that follows too many responses, or too large
// ones.
func PreviousTooLong() *Error {
	return tooLong.of("previous_response_id").error("The responses before this one are too many, or too large, to be followed.")
}

// ReferencesTooLong is the 400 of a request whose input refers to items that are too
// large.
func ReferencesTooLong() *Error {
	return tooLong.of("input").error("The items that the input refers to, and the responses before, are too large together.")
}

// InConversation is the 400 of a request that follows a response of a conversation, which
// has what precedes it.
func InConversation(id string) *Error {
	return badRequest.of("previous_response_id").errorf("The response %.64q belongs to a conversation; continue it with 'conversation'.", id)
}

// PreviousNotFound is the 400 of a request that follows the response id, where missing
// is not kept: id itself or a response before it.
func PreviousNotFound(id, missing string) *Error {
	if missing != id {
		return previousNotFound.errorf("The response %.64q cannot be followed: %.64q, before it, is not kept any more.", id, missing)
	}
	return previousNotFound.errorf("There is no response with the id %.64q to follow.", id)
}

// CancelPending is the 503 of a response that another node makes, which has not ended yet
// since it was asked to.
func CancelPending(id string) *Error {
	return storeFailed.errorf("The response %.64q is made by another server, which was asked to cancel it but has not done so yet. Please read the response later.", id)
}

// NotCancellable is the 400 of a response that has ended.
func NotCancellable(id string) *Error {
	return notCancellable.errorf("The response %.64q has ended; only one that is in progress can be cancelled.", id)
}

// StoreUnavailable is the 503 of a request that needs the store of responses while that
// fails.
func StoreUnavailable() *Error {
	return storeFailed.error("The responses that are kept cannot be reached. Please try again later.")
}
