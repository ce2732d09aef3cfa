package failures

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// turnClasses maps variants of CodexErrorInfo, Codex's codes for errors, to classes of API errors.
// For other variants, the class depends on the HTTP status or the message.
var turnClasses = map[string]apierror.Class{
	"contextWindowExceeded":     apierror.ContextTooLong,
	"sessionBudgetExceeded":     quotaSpent,
	codexrpc.CodeUsageLimit:     quotaSpent,
	"rateLimitExceeded":         apierror.RateLimited,
	"flexUnavailable":           overloaded,
	"serverOverloaded":          overloaded,
	"policyCapacityUnavailable": overloaded,
	"modelNotFound":             apierror.NoSuchModel,
	"inferenceHookDenied":       forbidden,
	"tooManyDenials":            forbidden,
	"invalidPrompt":             promptRefused,
	"internalServerError":       upstreamError,
	codexrpc.CodeUnauthorized:   unauthorized,
	"badRequest":                apierror.BadRequest,
	"threadRollbackFailed":      codexError,
	"sandboxError":              codexError,
	"activeTurnNotSteerable":    codexError,
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

// fromTurn returns the error for a turn's failure. It adds advice if the network or the account is missing.
func fromTurn(e *codexrpc.TurnError) *apierror.Error {
	c := classOf(e)
	message := turnMessage(e)
	switch {
	case c == disconnected && unreachable.MatchString(message):
		message = "the model's provider cannot be reached: this server has no network, or needs a proxy; " + message
	case c == disconnected && LacksAccount(e):
		message = noWorkspacePrefix + message
	}
	if c == apierror.BadRequest {
		return fromBadRequest(e, message)
	}
	if c == forbidden && ForbidsModel(e) {
		c = apierror.NoSuchModel
	}
	apiErr := newError(c, message, e.ResetsAt)
	apiErr.Spent = e.Code == codexrpc.CodeUsageLimit
	return apiErr
}

// newError returns the error of a class. If resets is not zero, a client may try again at that time.
// Otherwise, after an exceeded rate limit, a client may try again when the message says.
func newError(c apierror.Class, message string, resets time.Time) *apierror.Error {
	if c == apierror.RateLimited {
		c.RetryAfter = cmp.Or(hintedDelay(message), apierror.Soon)
	}
	apiErr := c.New(message)
	if !resets.IsZero() {
		apiErr.RetryAfter = max(apierror.Soon, time.Until(resets))
		if c == quotaSpent && apiErr.RetryAfter <= apierror.MaxRetryAfter {
			apiErr.ShouldRetry = nil
		} else if c == quotaSpent && !strings.Contains(message, "try again at ") { // as Codex says it
			apiErr.Message += fmt.Sprintf(" (This limit resets in %s.)", apiErr.RetryAfter.Round(time.Second))
		}
	}
	return apiErr
}

// fromPicture returns the error for a picture that the provider refuses. Some statuses mean something else
// than for a turn.
func fromPicture(e *turn.PictureError) *apierror.Error {
	c, known := statusClasses[e.Status]
	switch {
	case e.Spent:
		c = quotaSpent
	case e.Status == http.StatusBadRequest && e.Code == string(moderated.Code):
		c = moderated
	case e.Status == http.StatusForbidden, e.Status == http.StatusNotFound:
		c = noPictures
	case !known, c == disconnected, c == upstreamError, c == overloaded, c == apierror.ContextTooLong:
		c = badGateway
	}
	return newError(c, e.Message, e.ResetsAt)
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

func classOf(e *codexrpc.TurnError) apierror.Class {
	if c, known := turnClasses[e.Code]; known {
		return c
	}
	if slices.Contains(statusVariants, e.Code) {
		if c, known := statusClasses[e.HTTPStatus]; known {
			return c
		}
		return badGateway
	}
	if strings.HasSuffix(e.Code, "Policy") || strings.HasSuffix(e.Code, "Violation") {
		return contentRefused // newer releases name more policies
	}
	for i := range messageClasses {
		if messageClasses[i].message.MatchString(e.Message) {
			return messageClasses[i].Class
		}
	}
	return codexError
}

// routingDiscovery is a part of Codex's messages about the account of its login. Codex asks the provider's
// back end for the account before it asks the model.
const routingDiscovery = "routing discovery"

// messageClasses maps Codex's messages to classes, for what neither a code nor a status explains:
// the variant "other", and variants newer than this table. The first match counts.
var messageClasses = []struct {
	message *regexp.Regexp
	apierror.Class
}{
	{regexp.MustCompile(`^Failed to refresh token`), badGateway}, // a later attempt may succeed
	{regexp.MustCompile(`^request timed out`), apierror.TimedOut},
	{regexp.MustCompile(`routing discovery unauthorized|` + leftWorkspace.String()), unauthorized},
	{regexp.MustCompile(routingDiscovery + `|^Error while reading the server response|^stream disconnected`), disconnected}, // the last one: Codex does not retry an interrupted answer
	{unreachable, disconnected},
	{regexp.MustCompile(`^Account credentials changed`), disconnected}, // another app-server has renewed the same login; the next turn uses the new tokens
	{regexp.MustCompile(`^Image poisoning$|^\{`), apierror.BadRequest}, // an image that the provider cannot read; the body of a provider's 400
	// If the provider refuses a prompt (invalid_prompt, with Codex 0.169 bio_policy, and others), Codex passes on
	// the text without the code. The provider would refuse the same prompt again.
	{regexp.MustCompile(`flagged for possible biological risk`), contentRefused},
	{regexp.MustCompile(`(?i)\bflagged\b|^invalid prompt|\bsafety (?:reasons|system|polic)|\b(?:usage|content) polic|\bviolat(?:es?|ing|ions?)\b`), promptRefused},
}

// leftWorkspace matches Codex's messages for a login whose account is not in the workspace any more.
// unreachable matches Codex's messages for a provider that cannot be reached.
var (
	leftWorkspace = regexp.MustCompile(`workspace missing from ` + routingDiscovery)
	unreachable   = regexp.MustCompile(`^Connection failed|error sending request|Connection refused`)
)

// LeftWorkspace reports whether the account of Codex's login is not in its workspace any more.
func LeftWorkspace(e *codexrpc.TurnError) bool {
	return e.Code == "other" && leftWorkspace.MatchString(e.Message)
}

// LacksAccount reports whether a turn failed because Codex does not know the account of its login.
func LacksAccount(e *codexrpc.TurnError) bool { return strings.Contains(e.Message, routingDiscovery) }

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

// noWorkspacePrefix begins the message if LacksAccount is true.
const noWorkspacePrefix = "the provider does not say which account this server has, and the model is not asked before that; "

// providerError is the provider's error body: OpenAI's (Error) or the ChatGPT backend's (Detail).
type providerError struct {
	Error struct {
		Message string        `json:"message"`
		Code    apierror.Code `json:"code"`
		Param   string        `json:"param"`
	} `json:"error"`
	Detail string `json:"detail"`
}

// readProviderError decodes the provider's error body, a JSON object within Codex's message.
func readProviderError(message string) (found providerError) {
	if start := strings.IndexByte(message, '{'); start >= 0 {
		// A member of an unexpected type stays empty; the other members are read.
		_ = json.NewDecoder(strings.NewReader(message[start:])).Decode(&found)
	}
	return found
}

// fromBadRequest returns the error for a request that the provider rejected with a 400. The error has the
// text of the provider's error body or, if that has no text, message.
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

// ForbidsModel reports whether the provider's 403 means that the login may not use this model.
func ForbidsModel(e *codexrpc.TurnError) bool {
	return e.HTTPStatus == http.StatusForbidden && (readProviderError(e.Message).Error.Code == apierror.NoSuchModel.Code || deniesModel(turnMessage(e)))
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
	others := []apierror.Code{apierror.ContextTooLong.Code, contentRefused.Code, promptRefused.Code}
	return apiErr.Status == http.StatusBadRequest && !slices.Contains(others, apiErr.Code)
}

// RetryAfter returns how long the provider asks to wait after a failure, or 0.
func RetryAfter(e *codexrpc.TurnError) time.Duration {
	if !e.ResetsAt.IsZero() {
		return max(0, time.Until(e.ResetsAt))
	}
	return hintedDelay(e.Message + " " + e.Details)
}

// IsTransient reports whether the provider is down, out of reach or overloaded, so that a later
// attempt may succeed soon. Neither a rate limit nor an unknown account counts.
func IsTransient(failure error) bool {
	e, ok := errors.AsType[*codexrpc.TurnError](failure)
	transient := []apierror.Code{overloaded.Code, upstreamError.Code, disconnected.Code, apierror.TimedOut.Code}
	return ok && !LacksAccount(e) && slices.Contains(transient, fromTurn(e).Code)
}

// deniesModel reports whether a text says that this account has no such model.
// Providers have no common code for that.
func deniesModel(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "access to model") || strings.Contains(text, "model is not supported") || strings.Contains(text, "model does not exist") || strings.Contains(text, "model not found")
}

// retryHint finds a delay in a provider's text, such as "try again in 1m30.5s".
var retryHint = regexp.MustCompile(`(?i)try again in ((?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h))+)`)

func hintedDelay(text string) time.Duration {
	if hint := retryHint.FindStringSubmatch(text); hint != nil {
		if delay, err := time.ParseDuration(strings.ToLower(hint[1])); err == nil && delay > 0 {
			return delay
		}
	}
	return 0
}
