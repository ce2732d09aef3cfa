package failures

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
)

// turnClasses maps variants of CodexErrorInfo, Codex's codes for errors, to classes of API errors.
// For other variants, the class depends on the HTTP status or the message.
var turnClasses = map[string]apierror.Class{
	"contextWindowExceeded":       apierror.ContextTooLong,
	"sessionBudgetExceeded":       quotaSpent,
	codexrpc.CodeUsageLimit:       quotaSpent,
	"rateLimitExceeded":           apierror.RateLimited,
	"flexUnavailable":             overloaded,
	"serverOverloaded":            overloaded,
	"policyCapacityUnavailable":   overloaded,
	"modelNotFound":               apierror.NoSuchModel,
	"inferenceHookDenied":         forbidden,
	"tooManyDenials":              forbidden,
	"cyberPolicy":                 contentRefused,
	"misalignmentPolicyViolation": contentRefused,
	"internalServerError":         upstreamError,
	codexrpc.CodeUnauthorized:     unauthorized,
	"badRequest":                  apierror.BadRequest,
	"threadRollbackFailed":        codexError,
	"sandboxError":                codexError,
	"activeTurnNotSteerable":      codexError,
}

// statusVariants lists the variants of CodexErrorInfo that have a field for the HTTP status of the
// provider's answer. The status is 0 if there was no answer.
var statusVariants = []string{
	"httpConnectionFailed", "responseStreamConnectionFailed", "responseStreamDisconnected", "responseTooManyFailedAttempts",
}

// statusClasses maps the HTTP statuses of the model's provider to classes of API errors. The key 0
// means that the provider did not answer. A status that is not in the map is a badGateway.
var statusClasses = map[int]apierror.Class{
	0:                                disconnected,
	http.StatusBadRequest:            apierror.BadRequest,
	http.StatusUnprocessableEntity:   apierror.BadRequest,
	http.StatusUnauthorized:          unauthorized,
	http.StatusPaymentRequired:       quotaSpent,
	http.StatusForbidden:             forbidden,
	http.StatusNotFound:              apierror.NoSuchModel,
	http.StatusRequestEntityTooLarge: apierror.ContextTooLong,
	http.StatusTooManyRequests:       apierror.RateLimited,
	http.StatusInternalServerError:   upstreamError,
	http.StatusServiceUnavailable:    overloaded,
	http.StatusRequestTimeout:        apierror.TimedOut,
	http.StatusGatewayTimeout:        apierror.TimedOut,
}

func fromTurn(e *codexrpc.TurnError) *apierror.Error {
	c, known := turnClasses[e.Code]
	if !known && slices.Contains(statusVariants, e.Code) {
		if c, known = statusClasses[e.HTTPStatus]; !known {
			c, known = badGateway, true
		}
	}
	if !known {
		c = classOfMessage(e.Code, e.Message)
	}
	message := turnMessage(e)
	switch {
	case c == disconnected && isUnreachable(message):
		message = unreachablePrefix + message
	case c == disconnected && lacksWorkspace(message):
		message = noWorkspacePrefix + message
	}
	if c == apierror.RateLimited {
		c.RetryAfter = retryDelay(message)
	}
	if c == apierror.BadRequest {
		return fromBadRequest(e, message)
	}
	apiErr := c.New(message)
	if !e.ResetsAt.IsZero() {
		apiErr.RetryAfter = max(apierror.Soon, time.Until(e.ResetsAt))
	}
	return apiErr
}

// turnMessage returns Codex's message, followed by the details that the message does not contain.
// If there is no message, Codex's code for the error replaces it.
func turnMessage(e *codexrpc.TurnError) string {
	switch {
	case e.Message == "":
		return strings.TrimSpace("codex: " + e.Code + " " + e.Details)
	case e.Details == "" || strings.Contains(e.Message, e.Details):
		return e.Message
	}
	return e.Message + " " + e.Details
}

// codexMessages matches Codex's messages about its own failures. It recognizes most of them by
// their beginning.
var codexMessages = regexp.MustCompile(`^(turn aborted|session configured|timeout |spawn failed|interrupted|internal error|sandbox error|` +
	`codex-|unsupported operation|Fatal error|Missing environment variable|no thread with id|unexpected status|exceeded retry limit|agent |workspace )` +
	`|\(os error \d+\)| at line \d+ column \d+`)

// codeOther is the variant of CodexErrorInfo for all failures without a variant of their own.
const codeOther = "other"

// classOfMessage derives the class of a failure from its message. It is called if the code and the
// status do not determine the class.
func classOfMessage(code, message string) apierror.Class {
	switch {
	case strings.HasPrefix(message, "Failed to refresh token"): // a later attempt may succeed
		return badGateway
	case strings.HasPrefix(message, "request timed out"):
		return apierror.TimedOut
	case strings.HasPrefix(message, "Error while reading the server response"):
		return disconnected
	case message == "Image poisoning": // the provider cannot read the image
		return apierror.BadRequest
	case strings.HasPrefix(message, disconnectedPrefix), isUnreachable(message), lacksWorkspace(message), hasNewCredentials(message):
		return disconnected
	case strings.HasPrefix(message, "{"):
		return apierror.BadRequest // the message is the body of a provider's 400 response
	case code == codeOther && message != "" && !codexMessages.MatchString(message):
		// If the provider refuses a prompt (invalid_prompt, bio_policy and others), Codex passes on
		// the text of the refusal without its code. The provider would refuse the same prompt
		// again.
		return promptRefused
	}
	return codexError
}

// providerClasses maps error codes in a provider's 400 response to classes. An error with another
// code stays a 400, unless its text says that there is no such model.
var providerClasses = map[apierror.Code]apierror.Class{
	"model_not_found":             apierror.NoSuchModel,
	"context_length_exceeded":     apierror.ContextTooLong,
	"insufficient_quota":          quotaSpent,
	"usage_not_included":          quotaSpent,
	"usage_limit_reached":         quotaSpent,
	"rate_limit_exceeded":         apierror.RateLimited,
	"slow_down":                   apierror.RateLimited,
	"server_is_overloaded":        overloaded,
	"policy_capacity_unavailable": overloaded,
	"server_error":                upstreamError,
}

// unreachablePrefix begins the message if no connection to the provider was possible.
const unreachablePrefix = "the model's provider cannot be reached: this server has no network, or needs a proxy; "

// noWorkspacePrefix begins the message if [lacksWorkspace] is true. Codex has not asked the model
// in such a case.
const noWorkspacePrefix = "the provider's back end does not tell where the workspace of Codex's login is, and the model is not asked before that; the readiness says more; "

// disconnectedPrefix begins Codex's message about an answer that was interrupted, if Codex does not
// try again.
const disconnectedPrefix = "stream disconnected"

// lacksWorkspace reports whether message says that Codex could not find the workspace of its login:
// the back end failed, refused the login or did not answer.
func lacksWorkspace(message string) bool {
	return strings.Contains(message, "workspace routing discovery")
}

// hasNewCredentials reports whether Codex's message means that another app-server with the same
// login has stored new tokens, while this app-server was renewing the old tokens. The next turn
// uses the new tokens.
func hasNewCredentials(message string) bool {
	return strings.HasPrefix(message, "Account credentials changed")
}

// isUnreachable reports whether Codex's message means that the provider cannot be reached.
func isUnreachable(message string) bool {
	return strings.HasPrefix(message, "Connection failed") || strings.Contains(message, "error sending request") ||
		strings.Contains(message, "Connection refused")
}

// providerError is the body of an error of the model's provider. It has OpenAI's shape (Error) or
// the shape of the ChatGPT backend (Detail).
type providerError struct {
	Error struct {
		Message string        `json:"message"`
		Code    apierror.Code `json:"code"`
		Param   string        `json:"param"`
	} `json:"error"`
	Detail string `json:"detail"`
}

// readProviderError decodes the provider's error body, a JSON object, from Codex's message. The
// message may have text around the body. Missing members stay empty.
func readProviderError(message string) (found providerError) {
	if start := strings.IndexByte(message, '{'); start >= 0 {
		// A member of an unexpected type stays empty; the other members are read.
		_ = json.NewDecoder(strings.NewReader(message[start:])).Decode(&found)
	}
	return found
}

// fromBadRequest returns the error for a request that the provider rejected with a 400. The error
// has the text of the provider's error body. If no such text is found, the error has the text of
// the argument message.
func fromBadRequest(e *codexrpc.TurnError, message string) *apierror.Error {
	provider := readProviderError(e.Message)
	if text := provider.Error.Message + provider.Detail; text != "" {
		message = text
	}
	if c, known := providerClasses[provider.Error.Code]; known {
		return c.New(message)
	}
	if deniesModel(message) {
		return apierror.NoSuchModel.New(message)
	}
	c := apierror.BadRequest.Of(provider.Error.Param)
	c.Code = provider.Error.Code
	c.Type = apierror.TypeOf(c.Code, c.Status)
	return c.New(message)
}

// RefusesInstructions reports whether a turn failed because the model's provider, in this case
// the ChatGPT backend, accepts only Codex's own prompt as instructions.
func RefusesInstructions(failure error) bool {
	e, ok := errors.AsType[*codexrpc.TurnError](failure)
	if !ok {
		return false
	}
	detail := strings.ToLower(strings.TrimSuffix(readProviderError(e.Message).Detail, "."))
	return detail == "instructions are not valid" && fromTurn(e).Status == http.StatusBadRequest
}

// RefusesReasoning reports whether a turn failed because the provider cannot read reasoning in the
// turn's history, for example reasoning of another account.
func RefusesReasoning(failure error) bool {
	e, ok := errors.AsType[*codexrpc.TurnError](failure)
	return ok && fromTurn(e).Code == "invalid_encrypted_content"
}

// RejectsRequest reports whether a turn failed because the model's provider rejects the form of the
// request. Providers have no common message for that, so every 400 counts, except those about the
// instructions, the model, the length of the conversation, or the content of the prompt.
func RejectsRequest(failure error) bool {
	e, ok := errors.AsType[*codexrpc.TurnError](failure)
	if !ok || RefusesInstructions(failure) {
		return false
	}
	apiErr := fromTurn(e)
	if apiErr.Status != http.StatusBadRequest {
		return false
	}
	switch apiErr.Code {
	case apierror.ContextTooLong.Code, contentRefused.Code, promptRefused.Code:
		return false
	}
	return true
}

// FailedProvider reports whether a turn failed because the model's provider is down, out of reach
// or overloaded, or because the provider limits or refuses the account. In these cases another
// provider may answer the request. retryAfter is how long the provider asks to wait; 0: it does not
// say.
func FailedProvider(failure error) (failed bool, retryAfter time.Duration) {
	e, ok := errors.AsType[*codexrpc.TurnError](failure)
	if !ok {
		return false, 0
	}
	retryAfter = hintedDelay(e.Message + " " + e.Details)
	if !e.ResetsAt.IsZero() {
		retryAfter = max(0, time.Until(e.ResetsAt))
	}
	return isTransient(e) || fromTurn(e).Code == apierror.RateLimited.Code ||
		e.HTTPStatus == http.StatusForbidden || e.HTTPStatus == http.StatusPaymentRequired, retryAfter
}

// IsTransient reports whether a turn failed because the model's provider is down, out of reach or
// overloaded. A later attempt may succeed soon. Neither an exceeded rate limit nor an unknown
// workspace of the login counts.
func IsTransient(failure error) bool {
	e, ok := errors.AsType[*codexrpc.TurnError](failure)
	return ok && isTransient(e) && !lacksWorkspace(e.Message)
}

func isTransient(e *codexrpc.TurnError) bool {
	switch fromTurn(e).Code {
	case overloaded.Code, upstreamError.Code, disconnected.Code, apierror.TimedOut.Code:
		return true
	}
	return false
}

// deniesModel reports whether a text says that this account has no such model.
// Providers have no common code for that.
func deniesModel(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "model is not supported") || strings.Contains(text, "model does not exist") || strings.Contains(text, "model not found")
}

// retryHint finds a delay in a provider's text, such as "try again in 1m30.5s".
var retryHint = regexp.MustCompile(`(?i)try again in ((?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h))+)`)

// retryDelay returns the delay that a text names, or else apierror.Soon.
func retryDelay(text string) time.Duration { return cmp.Or(hintedDelay(text), apierror.Soon) }

// hintedDelay returns the delay that a text names, or 0.
func hintedDelay(text string) time.Duration {
	if hint := retryHint.FindStringSubmatch(text); hint != nil {
		if delay, err := time.ParseDuration(strings.ToLower(hint[1])); err == nil && delay > 0 {
			return delay
		}
	}
	return 0
}
