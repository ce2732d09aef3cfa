// Package failures classifies the failures of Codex and of turns. [APIError] converts a failure to
// an error for the client. The other functions help to decide whether and how to try a turn again.
package failures

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// sentinels maps errors without details to their classes. The first match counts.
var sentinels = []struct {
	err error
	apierror.Class
}{
	{turn.ErrIdle, apierror.NewClass(apierror.CodeIdleTimeout, http.StatusGatewayTimeout, 0)},
	{turn.ErrCompacted, apierror.ContextTooLong},
	{turn.ErrOwnTools, apierror.NewClass("codex_error", http.StatusBadGateway, apierror.Never)},
	{turn.ErrInventedTool, apierror.NewClass("unknown_tool_called", http.StatusBadRequest, 0)},
	{turn.ErrInterrupted, apierror.NewClass("codex_interrupted", http.StatusServiceUnavailable, apierror.Soon)},
	{turn.ErrNoPictures, noPictures},
	{turn.ErrNoSummary, apierror.NewClass("no_summary", http.StatusBadRequest, 0)},
	{turn.ErrShutdown, apierror.NewClass("server_shutting_down", http.StatusServiceUnavailable, apierror.Soon)},
	{codexrpc.ErrOverloaded, apierror.NewClass(apierror.CodeCodexOverloaded, http.StatusServiceUnavailable, apierror.Soon)},
	{codexrpc.ErrUnresponsive, apierror.NewClass("codex_unresponsive", http.StatusServiceUnavailable, apierror.Soon)},
	{codexrpc.ErrClosed, exited},
	{codexrpc.ErrNotLoggedIn, unauthorized},
	{codexrpc.ErrTooSlow, apierror.NewClass("codex_too_slow", http.StatusGatewayTimeout, 0)},
	{codexrpc.ErrMessageTooLarge, codexError},
	{codexrpc.ErrTimeout, apierror.TimedOut},
}

// APIError converts err to an error for the client. It returns nil for nil, and an
// [*apierror.Error] as it is. It knows *codexrpc.TurnError, *codexrpc.CallError,
// *appserver.NotReadyError, the errors of turn about pictures, the sentinels of codexrpc and turn,
// and the errors of contexts. Any other error becomes an error with status 500.
//
// The error's Message is a fixed text, or the text of Codex or of the model's provider without URLs,
// network addresses and paths. If the provider rejects the request (400), paths stay, since the message
// may name a field of the request as a path.
//
// The error's Detail is the whole text, for the operator's log. It is empty if the context was canceled.
// It is also empty if the status is 400, since the text may quote the request.
func APIError(err error) *apierror.Error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*apierror.Error](err); ok {
		return known
	}
	e := classify(err)
	if e.Status != http.StatusBadRequest && !errors.Is(err, context.Canceled) {
		e.Detail = e.Message // a 400 may quote the request
	}
	e.Message = clientMessage(err, e)
	return e
}

// Messages for clients if the provider rejects the login or the configuration of the app-server.
const (
	signInAgain         = "This server is not signed in at the model's provider, or the provider refuses its login, perhaps only for this model. It is not about your API key. The operator of this server has to run `caddy codex login`, or to renew the provider's key."
	configurationRemedy = "Codex does not take the configuration that the operator of this server gave it; the server's log says why."
)

// clientMessage returns the text of the failure without what clients must not see, or a fixed text.
func clientMessage(err error, e *apierror.Error) string {
	process, _ := errors.AsType[*appserver.NotReadyError](err)
	_, isTurn := errors.AsType[*codexrpc.TurnError](err)
	switch {
	case e.Code == notReady.Code && process != nil:
		return notReadyMessage(&appserver.NotReadyError{State: process.State, Reason: process.Remedy, Final: process.Final})
	case e.Code == exited.Code:
		return codexrpc.ErrClosed.Error() // without what the app-server wrote to stderr
	case e.Code == misconfigured.Code:
		return configurationRemedy
	case e.Code == unauthorized.Code:
		return signInAgain
	case e.Code == internal.Code:
		return "The request failed within this server; its log says why."
	case isTurn && e.Status == http.StatusBadRequest && e.Code != promptRefused.Code:
		return withoutURLs(wirejson.Truncate(e.Message, maxClientMessage)) // with paths: the provider may name a field as a path
	}
	return Redact(e.Message)
}

// Redact returns a text as a client may see it: shortened, without URLs, addresses and paths.
func Redact(text string) string {
	return withoutPaths(withoutURLs(wirejson.Truncate(text, maxClientMessage)))
}

// classify returns the error for a failure. The error's message is the whole text of the failure;
// APIError then removes what clients must not see.
func classify(err error) *apierror.Error {
	if process, ok := errors.AsType[*appserver.NotReadyError](err); ok {
		return fromNotReady(process)
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return s.New(err.Error())
		}
	}
	if failed, ok := errors.AsType[*codexrpc.TurnError](err); ok {
		return fromTurn(failed)
	}
	if callErr, ok := errors.AsType[*codexrpc.CallError](err); ok {
		return fromCall(callErr)
	}
	if failed, ok := errors.AsType[*turn.PictureError](err); ok {
		return fromPicture(failed)
	}
	if _, ok := errors.AsType[*turn.NoPictureError](err); ok {
		return noPicture.New(err.Error())
	}
	switch {
	case errors.Is(err, context.Canceled):
		return apierror.ClientGone()
	case errors.Is(err, context.DeadlineExceeded):
		return apierror.TimedOut.New(err.Error())
	}
	return internal.New(err.Error())
}

func fromNotReady(e *appserver.NotReadyError) *apierror.Error {
	if e.SignedOut {
		return unauthorized.New(e.Error())
	}
	c := notReady
	if c.RetryAfter = max(apierror.Soon, e.RetryAfter); e.Final {
		c.RetryAfter, c.ShouldRetry = 0, new(bool) // false: trying again is of no use
	}
	return c.New(notReadyMessage(e))
}

func notReadyMessage(e *appserver.NotReadyError) string {
	message := strings.TrimSuffix(e.Error(), ".") + "."
	if !e.Final {
		message += " Please try again later; GET /readyz tells when it is ready."
	}
	return message
}

func fromCall(e *codexrpc.CallError) *apierror.Error {
	var input wirejson.Value // why Codex has refused an input
	wirejson.Value(e.Data).Pick(wirejson.Into("input_error_code", &input))
	switch {
	case strings.Contains(e.Message, "failed to load configuration"): // only the operator can correct it
		return misconfigured.New(e.Message)
	case input.Is("input_too_large"):
		return apierror.ContextTooLong.New(e.Message)
	case e.Code == -32600: // the app-server rejects what a client asked for
		return refused.New(e.Message)
	}
	return codexError.New(e.Error())
}

// maxClientMessage bounds the text that a client gets, in bytes. A provider's text may have any length.
const maxClientMessage = 64 << 10

// anyURL matches a URL. The slashes may be escaped as in JSON. anyURL does not match punctuation at
// the end, since that belongs to the sentence around the URL.
const anyURL = `(?:[a-z][a-z0-9+.-]*)?:(?:\\?/){2}(?:(?:[^\s"'<>\\` + "`" + `]|\\/)*[^\s"'<>\\` + "`" + `.,;:!?)\]}])?`

// The search for all matches in a text must take linear time. So no alternative of these patterns
// may read far ahead and then fail: the search for the next match would read the same text again.
var (
	// urlPhrase matches a URL within ", url: …" of Codex, or within " for url (…)" of its HTTP client.
	urlPhrase = regexp.MustCompile(`(?i),? url: ?` + anyURL + `| for url \(` + anyURL + `\)`)
	urls      = regexp.MustCompile(`(?i)` + anyURL)

	// hostPorts matches a host with a port. The host is localhost or has a dot, since "llama3:8" is a model.
	hostPorts = regexp.MustCompile(`(?i)\b(?:localhost|(?:[a-z0-9-]+\.)+[a-z][a-z0-9-]*):\d+\b`)
	// addresses matches an IPv4 address, or an IPv6 address in brackets. A port may follow.
	addresses = regexp.MustCompile(`(?i)\b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+\b)?|\[[0-9a-f]*:[0-9a-f]*:[0-9a-f.:]*(?:%[^\]\s]+)?\](?::\d+\b)?`)

	// quotedPaths matches a path in quotes, which may contain blanks. barePaths matches a path
	// without quotes, at the beginning of the text or after a blank or punctuation.
	quotedPaths = regexp.MustCompile(`"(?:~?/|[A-Za-z]:\\|\\\\)[\w.][^"\n]*"|'(?:~?/|[A-Za-z]:\\|\\\\)[\w.][^'\n]*'|` +
		"`(?:~?/|[A-Za-z]:\\\\|\\\\\\\\)[\\w.][^`\\n]*`")
	barePaths = regexp.MustCompile(`(^|[\s"'` + "`" + `(\[{<=:,;|])(?:~?/|[A-Za-z]:\\|\\\\)[\w.](?:[^\s"'<>` + "`" + `]*[^\s"'<>` + "`" + `.,;:!?)\]}])?`)
)

// helpPage matches a URL of OpenAI's web sites, since OpenAI's errors link to help pages there. It
// also matches URLs of ChatGPT's back end, but IsHelpPage does not.
var helpPage = regexp.MustCompile(`^https://(?:(?:platform|help|status|developers)\.)?(?:openai|chatgpt)\.com(?:/[\w./#-]*)?$`)

// IsHelpPage reports whether clients get a URL as it is, since it is of one of OpenAI's pages.
func IsHelpPage(url string) bool {
	return helpPage.MatchString(url) && !strings.Contains(url, "backend-api")
}

// withoutURLs replaces the URLs and network addresses in a text, since Codex's messages contain
// addresses of the model's provider. It keeps the URLs of OpenAI's help pages.
func withoutURLs(text string) string {
	text = urls.ReplaceAllStringFunc(urlPhrase.ReplaceAllString(text, ""), func(url string) string {
		if IsHelpPage(url) {
			return url
		}
		return "[url]"
	})
	text = hostPorts.ReplaceAllString(text, "[address]")
	return addresses.ReplaceAllString(text, "[address]")
}

func withoutPaths(text string) string {
	text = quotedPaths.ReplaceAllStringFunc(text, func(quoted string) string {
		return quoted[:1] + "[path]" + quoted[:1]
	})
	return barePaths.ReplaceAllString(text, "${1}[path]")
}

var (
	contentRefused = apierror.NewClass("content_policy_violation", http.StatusBadRequest, 0)
	promptRefused  = apierror.NewClass("invalid_prompt", http.StatusBadRequest, 0)
	refused        = apierror.NewClass(apierror.CodeRefused, http.StatusBadRequest, 0)
	forbidden      = apierror.NewClass(apierror.CodeForbidden, http.StatusForbidden, apierror.Never)
	quotaSpent     = apierror.NewClass(apierror.CodeInsufficientQuota, http.StatusTooManyRequests, apierror.Never)
	upstreamError  = apierror.NewClass(apierror.CodeUpstreamError, http.StatusInternalServerError, 0)
	badGateway     = apierror.NewClass(apierror.CodeUpstreamError, http.StatusBadGateway, 0)
	disconnected   = apierror.NewClass(apierror.CodeUpstreamDisconnected, http.StatusBadGateway, 0)
	codexError     = apierror.NewClass("codex_error", http.StatusBadGateway, 0)
	unauthorized   = apierror.NewClass(apierror.CodeUnauthorized, http.StatusServiceUnavailable, apierror.Never) // this server is unauthorized, not the client
	misconfigured  = apierror.NewClass("codex_misconfigured", http.StatusServiceUnavailable, apierror.Never)
	notReady       = apierror.NewClass("codex_not_ready", http.StatusServiceUnavailable, apierror.Soon)
	overloaded     = apierror.NewClass(apierror.CodeServerOverloaded, http.StatusServiceUnavailable, apierror.Soon)
	exited         = apierror.NewClass(apierror.CodeExited, http.StatusServiceUnavailable, apierror.Soon)
	noPictures     = apierror.NewClass("images_unavailable", http.StatusForbidden, apierror.Never)
	noPicture      = apierror.NewClass("image_not_generated", http.StatusBadRequest, 0)
	moderated      = apierror.NewClass("moderation_blocked", http.StatusBadRequest, 0)
	internal       = apierror.NewClass("internal_error", http.StatusInternalServerError, 0)
)
