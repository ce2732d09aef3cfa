package apierror

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ErrCancelled is for a cancelled response. Code compares errors with it: never copy or change it.
var ErrCancelled = &Error{Status: http.StatusConflict, Type: TypeServer, Code: CodeResponseCancelled, Message: "The response was cancelled."}

// Each variable is a function that returns an error of this server. The class says the status of the
// error. The message says when the error is returned; the function's arguments are inserted into it.
var (
	BodyTimeout     = constructor2[int, time.Duration](NewClass("request_timeout", http.StatusRequestTimeout, 0), "The request body came too slowly: it must come at %d bytes a second or more, and within %s.")
	PayloadTooLarge = constructor1[int64](NewClass("request_too_large", http.StatusRequestEntityTooLarge, 0), "The request body is larger than the limit of %d bytes.")
	// TooEarly returns the 425 error for a request in TLS early data with a method other than GET
	// and HEAD. An attacker may have recorded such a request and sent it again.
	TooEarly            = constructor(NewClass("too_early", http.StatusTooEarly, 0), "The request came as early data of TLS (0-RTT), which others can record and repeat. Please send it again after the handshake.")
	UnsupportedEncoding = constructor1[string](NewClass("unsupported_content_encoding", http.StatusUnsupportedMediaType, 0), "The Content-Encoding %.64q is not supported. Send the body as it is, or as gzip or zstd.")
	CorruptBody         = constructor1[string](invalid, "The request body is not in its Content-Encoding, %s.")
	BodyMemory          = constructor(NewClass("codex_body_memory", http.StatusServiceUnavailable, afterQueue), "Request bodies take all the memory that there is for them here, or all that one user may take. Please try again in a moment.")
	AnswerTooLarge      = constructor1[int64](NewClass("answer_too_large", http.StatusBadGateway, Never), "The model's answer is larger than the limit of %d bytes for answers that are put together here. A stream of chat completions has no such limit.")
	AnswerMemory        = constructor(NewClass("codex_answer_memory", http.StatusServiceUnavailable, afterQueue), "Answers that are put together take all the memory that there is for them here, or all that one user may take. Please try again later; a stream of chat completions takes none.")
	// ClientGone returns the 499 error (a status of nginx) for a client that closed the connection. The
	// error is for logs and metrics. But a client that closed only its sending side still reads it.
	ClientGone = constructor(NewClass("client_closed_request", 499, 0), "The client closed the connection before the answer was complete.")

	QueueFull = constructor(NewClass(CodeQueueFull, http.StatusTooManyRequests, Soon), "Too many requests are running or waiting here. Please try again in a moment.")
	// QueueTimeout returns the error after a wait in the queue: a 503, as it may be no fault of the client.
	QueueTimeout    = constructor1[time.Duration](NewClass("codex_queue_timeout", http.StatusServiceUnavailable, afterQueue), "No turn could be run here within %s: all places are taken, or all that one user may take. Please try again later.")
	TooManyChoices  = constructor2[int, int](BadRequest.Of("n"), "n must be at most %[2]d here, not %[1]d: that many turns may run at once.")
	ChoicesTooLarge = constructor2[int64, int64](BadRequest.Of("n"), "n must be at most %[2]d for a request of this size, not %[1]d: each choice takes the memory of all of it.")
	TooManySockets  = constructor(NewClass(CodeQueueFull, http.StatusServiceUnavailable, Soon), "Too many WebSockets are open here, or those of one user. Please try again later, or use POST.")
	// SocketTooOld returns the 400 error for a request over a WebSocket that is too old to accept
	// more requests. The code is OpenAI's; clients such as Codex connect again when they get it.
	SocketTooOld = constructor(NewClass("websocket_connection_limit_reached", http.StatusBadRequest, 0), "The WebSocket is an hour old and takes no more requests. Please connect again.")

	Unauthorized      = constructor(NewClass(CodeInvalidAPIKey, http.StatusUnauthorized, 0), "The API key is missing or wrong. Send it as: Authorization: Bearer KEY, or in the header api-key or x-api-key.")
	AdminKeyWrong     = constructor(NewClass(CodeInvalidAPIKey, http.StatusUnauthorized, 0), "The admin key is missing or wrong. It is none of the API keys. Send it as: Authorization: Bearer KEY.")
	NoSuchAppServer   = constructor1[string](NewClass(CodeNotFound, http.StatusNotFound, 0).Of("app_server"), "There is no app-server with the id %.64q. Name one in the query, as in ?app_server=ID.")
	NoSuchRecording   = constructor(NewClass(CodeNotFound, http.StatusNotFound, 0).Of("id"), "There is no recording of a request with this id: it was not recorded, or has made room for later ones. Switch recording on, and repeat the request.")
	TooManySwitches   = constructor(RateLimited, "Too many users have their requests recorded now. Please try again later.")
	SignInUnderWay    = constructor(NewClass("sign_in_under_way", http.StatusConflict, 0), "A sign-in of this login is under way already. Enter its code, or cancel it.")
	SignInFailed      = constructor1[string](NewClass("sign_in_failed", http.StatusBadGateway, Never), "There is no code to sign in with: %.1000s")
	ResetFailed       = constructor1[string](NewClass("reset_failed", http.StatusBadGateway, Never), "The plan's windows were not reset, as far as is known: %.1000s")
	KeyConcurrency    = constructor1[int](RateLimited, "Rate limit reached for this API key: it may have %d answers under way at once. Please try again in a moment.")
	LimitsUnavailable = constructor(NewClass("key_limits_unavailable", http.StatusServiceUnavailable, 5*time.Second), "What this API key has used cannot be counted at the moment, so its limits cannot be checked. Please try again later.")
	OriginNotAllowed  = constructor1[string](NewClass("origin_not_allowed", http.StatusForbidden, 0), "Pages of the origin %.256q may not use this API.")
	HostNotAllowed    = constructor1[string](NewClass("host_not_allowed", http.StatusForbidden, 0), "Without an API key this server does not answer to the name %.200q. Its operator can list the name in the option hosts, or configure an api_key.")

	ModelNotFound = constructor1[string](NoSuchModel, "The model %.128q does not exist here, or your key may not use it. GET /v1/models lists those that do.")

	ResponseNotFound  = constructor1[string](NewClass("response_not_found", http.StatusNotFound, 0), "There is no response with the id %.64q. Responses are kept when 'store' is not false, for a while, and for the user who made them.")
	BackgroundTimeout = constructor1[time.Duration](TimedOut, "The response did not end within %s, which is the most for one in the background.")
	CancelPending     = constructor1[string](storeFailed, "The response %.64q is made by another server, which was asked to cancel it but has not done so yet. Please read the response later.")
	NotCancellable    = constructor1[string](NewClass(CodeResponseNotCancellable, http.StatusBadRequest, 0), "The response %.64q has ended; only one that is in progress can be cancelled.")
	StoreUnavailable  = constructor(storeFailed, "The responses that are kept cannot be reached. Please try again later.")
	UsageUnavailable  = constructor(storeFailed, "The usage cannot be read at the moment. Please try again later.")
	InConversation    = constructor1[string](BadRequest.Of("previous_response_id"), "The response %.64q belongs to a conversation; continue it with 'conversation'.")
	// PreviousTooLong returns the 400 error for a request whose previous_response_id names the last of
	// too many responses, or of responses that are too large together.
	PreviousTooLong = constructor(ContextTooLong.Of("previous_response_id"), "The responses before this one are too many, or too large, to be followed.")
	// WindowExceeded returns a 400 error with the words that clients of OpenAI and of Anthropic look for.
	WindowExceeded    = constructor2[int, int](ContextTooLong, "%d tokens > %[2]d maximum. This model's maximum context length is %[2]d tokens. Please reduce the length of the messages.")
	ReferencesTooLong = constructor(ContextTooLong.Of("input"), "The items that the input refers to, and the responses before, are too large together.")

	ConversationNotFound     = constructor1[string](NewClass("conversation_not_found", http.StatusNotFound, 0).Of("conversation"), "There is no conversation with the id %.64q. Conversations are kept for a while, unless store is off, and for the user who made them.")
	ConversationItemNotFound = constructor2[string, string](NewClass(CodeNotFound, http.StatusNotFound, 0), "There is no item with the id %.128[2]q in the conversation %.64[1]q.")
	ConversationTooLong      = constructor(ContextTooLong.Of("conversation"), "The conversation is too large.")
)

func constructor(c Class, message string) func() *Error {
	return func() *Error { return c.New(message) }
}

func constructor1[A any](c Class, format string) func(A) *Error {
	return func(a A) *Error { return c.Newf(format, a) }
}

func constructor2[A, B any](c Class, format string) func(A, B) *Error {
	return func(a A, b B) *Error { return c.Newf(format, a, b) }
}

// InvalidRequest is the 400 for a mistake in param; empty: in a header or the request as a whole.
func InvalidRequest(param, message string) *Error { return BadRequest.Of(param).New(message) }

// InvalidImageURL is the 400 for an image that could not be fetched from the URL in param.
func InvalidImageURL(param, message string) *Error { return invalidImageURL.Of(param).New(message) }

// KeyExpired is the 401 for an API key that has expired. It was valid until expiry.
func KeyExpired(expiry time.Time) *Error {
	return keyExpired.Newf("The API key expired at %s. Ask the operator of this server for a new one.", expiry.UTC().Format(time.RFC3339))
}

// NotFound returns the 404 error for a path below /v1 that is not a route of this API.
func NotFound(method, path string) *Error {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
	if missing := unsupportedAPIs[first]; missing != "" {
		return unknownURL.Newf("Codex has no %s, so this server has no %.32s %.256s. Its operator can pass such paths to another provider, see docs/routes.md.", missing, method, path)
	}
	if first == "images" {
		return unknownURL.Newf("This server has no %.32s %.256s. Codex makes pictures at /v1/images/generations and /v1/images/edits, if the operator has set the option images.", method, path)
	}
	if first == "completions" {
		return unknownURL.Newf("The models of this server are chat models, which are not in %.32s %.256s. Did you mean to use /v1/chat/completions?", method, path)
	}
	return unknownURL.Newf("Unknown request URL: %.32s %.256s. This server has /v1/chat/completions, /v1/responses, /v1/messages, /v1/conversations, /v1/models and /v1/usage.", method, path)
}

// NotTheAPI is the 404 for a path that is neither of this API nor of another handler.
func NotTheAPI(method, path, baseURL string) *Error {
	ollama := ""
	if strings.HasPrefix(path, "/api/") {
		ollama = " Ollama's API, which the operator can turn on with the option ollama, is off here."
	}
	return unknownURL.Newf("This is an OpenAI-compatible API with the base URL %.256s; there is nothing at %.32s %.256s.%s", baseURL, method, path, ollama)
}

// unsupportedAPIs has the parts of OpenAI's API that Codex cannot serve, by the first segment after /v1.
var unsupportedAPIs = map[string]string{
	"embeddings": "embeddings", "audio": "speech", "files": "files", "uploads": "files",
	"batches": "batches", "moderations": "moderation", "fine_tuning": "fine-tuning", "vector_stores": "vector stores",
	"assistants": "assistants", "threads": "assistants", "realtime": "realtime API", "videos": "videos",
}

// WithModels returns a copy of the error whose message also lists the first 12 names, if there are any.
func (e *Error) WithModels(names []string) *Error {
	const maxModels = 12
	if len(names) == 0 {
		return e
	}
	longer, separator, end := *e, ". The models here are: ", "."
	if len(names) > maxModels {
		names, end = names[:maxModels], " and others."
	}
	longer.Message = strings.TrimRight(e.Message, ". \n")
	for _, name := range names {
		longer.Message += separator + fmt.Sprintf("%.64s", name)
		separator = ", "
	}
	longer.Message += end
	return &longer
}

// MethodNotAllowed is the 405 for a path that supports only allow, methods separated by commas.
func MethodNotAllowed(method, path, allow string) *Error {
	e := wrongMethod.Newf("%.32s is not a method of %.256s; use %s.", method, path, allow)
	e.allow = allow
	return e
}

// NoStore is the 400 for a param that needs stored responses, on a server that stores no responses.
func NoStore(param string) *Error {
	return unsupported.Of(param).Newf("'%s' needs stored responses, and this server stores none: its operator has set store to off.", param)
}

// NoEvents is the 400 for a request to read events that are not stored. The message contains reason.
func NoEvents(param, reason string) *Error {
	return BadRequest.Of(param).Newf("The events of this response are not kept here%s; leave 'stream' out to read the response itself.", reason)
}

// PreviousNotFound is the 400 for a request whose previous_response_id is id. missing is the response
// that is not stored: id itself, or an earlier response that id follows.
func PreviousNotFound(id, missing string) *Error {
	if missing == id {
		return previousNotFound.Newf("There is no response with the id %.64q to follow.", id)
	}
	return previousNotFound.Newf("The response %.64q cannot be followed: %.64q, before it, is not kept any more.", id, missing)
}
