package failures

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// want is what a failure must become. A retry below zero means that trying again is no use.
type want struct {
	status      int
	kind        string
	code        apierror.Code
	param       string
	retry       time.Duration
	message     string // empty: the error's own text
	messageHead string // instead of message: how it begins
}

const noUse time.Duration = -1

func checkFailure(t *testing.T, err error, w want) {
	t.Helper()
	e := APIError(err)
	if e.Status != w.status || e.Type != w.kind || e.Code != w.code || e.Param != w.param {
		t.Errorf("%v became %+v, want %+v", err, e, w)
	}
	if final := e.ShouldRetry != nil && !*e.ShouldRetry; final != (w.retry == noUse) {
		t.Errorf("%v: trying again is no use: %v", err, final)
	}
	if e.RetryAfter != max(0, w.retry) {
		t.Errorf("%v: retry after %v, want %v", err, e.RetryAfter, w.retry)
	}
	if w.message == "" && w.messageHead == "" {
		w.message = err.Error()
	}
	if e.Message != w.message && (w.messageHead == "" || !strings.HasPrefix(e.Message, w.messageHead)) {
		t.Errorf("message %q, want %q%q", e.Message, w.message, w.messageHead)
	}
}

func turnErr(code string, status int, message string) *codexrpc.TurnError {
	return &codexrpc.TurnError{Code: code, HTTPStatus: status, Message: message}
}

// TestFromFailureTurn holds every variant of CodexErrorInfo, with messages as
// Codex 0.169 words them where they matter.
func TestFromFailureTurn(t *testing.T) {
	const (
		invalid = apierror.TypeInvalidRequest
		second  = time.Second
	)
	for name, c := range map[string]struct {
		err *codexrpc.TurnError
		want
	}{
		"context":         {turnErr("contextWindowExceeded", 0, "ran out of room"), want{400, invalid, "context_length_exceeded", "messages", 0, "ran out of room", ""}},
		"session budget":  {turnErr("sessionBudgetExceeded", 0, "spent"), want{429, apierror.TypeQuota, "insufficient_quota", "", noUse, "spent", ""}},
		"usage limit":     {turnErr("usageLimitExceeded", 0, "Quota exceeded. Try again in 3m."), want{429, apierror.TypeQuota, "insufficient_quota", "", noUse, "Quota exceeded. Try again in 3m.", ""}},
		"rate limit":      {turnErr("rateLimitExceeded", 0, "Rate limit reached. Please try again in 11ms."), want{429, apierror.TypeRateLimit, "rate_limit_exceeded", "", 11 * time.Millisecond, "Rate limit reached. Please try again in 11ms.", ""}},
		"rate, no hint":   {turnErr("rateLimitExceeded", 0, "slow down"), want{429, apierror.TypeRateLimit, "rate_limit_exceeded", "", second, "slow down", ""}},
		"flex":            {turnErr("flexUnavailable", 0, "x"), want{503, apierror.TypeServer, "server_overloaded", "", second, "x", ""}},
		"overloaded":      {turnErr("serverOverloaded", 0, "x"), want{503, apierror.TypeServer, "server_overloaded", "", second, "x", ""}},
		"policy":          {turnErr("policyCapacityUnavailable", 0, "x"), want{503, apierror.TypeServer, "server_overloaded", "", second, "x", ""}},
		"model":           {turnErr("modelNotFound", 0, "x"), want{404, invalid, "model_not_found", "model", 0, "x", ""}},
		"hook":            {turnErr("inferenceHookDenied", 0, "x"), want{403, apierror.TypePermission, "codex_forbidden", "", noUse, "x", ""}},
		"denials":         {turnErr("tooManyDenials", 0, "x"), want{403, apierror.TypePermission, "codex_forbidden", "", noUse, "x", ""}},
		"cyber":           {turnErr("cyberPolicy", 0, "x"), want{400, invalid, "content_policy_violation", "", 0, "x", ""}},
		"misalignment":    {turnErr("misalignmentPolicyViolation", 0, "x"), want{400, invalid, "content_policy_violation", "", 0, "x", ""}},
		"server error":    {turnErr("internalServerError", 0, "high demand"), want{500, apierror.TypeServer, "upstream_error", "", 0, "high demand", ""}},
		"unauthorized":    {turnErr("unauthorized", 0, "x"), want{503, apierror.TypeServer, "codex_unauthorized", "", noUse, signInAgain, ""}},
		"rollback":        {turnErr("threadRollbackFailed", 0, "x"), want{502, apierror.TypeServer, "codex_error", "", 0, "x", ""}},
		"sandbox":         {turnErr("sandboxError", 0, "x"), want{502, apierror.TypeServer, "codex_error", "", 0, "x", ""}},
		"steer":           {turnErr("activeTurnNotSteerable", 0, "x"), want{502, apierror.TypeServer, "codex_error", "", 0, "x", ""}},
		"a new policy":    {turnErr("bioPolicy", 0, "x"), want{400, invalid, "content_policy_violation", "", 0, "x", ""}},
		"a new violation": {turnErr("somethingViolation", 0, "x"), want{400, invalid, "content_policy_violation", "", 0, "x", ""}},
		"a prompt":        {turnErr("invalidPrompt", 0, "x"), want{400, invalid, "invalid_prompt", "", 0, "x", ""}},
		"a new name":      {turnErr("quotaOfTheMoon", 0, "stream disconnected before completion"), want{502, apierror.TypeServer, "upstream_disconnected", "", 0, "stream disconnected before completion", ""}},
		"unknown words":   {turnErr("other", 0, "the moon is full"), want{502, apierror.TypeServer, "codex_error", "", 0, "the moon is full", ""}},
		"unsafe":          {turnErr("other", 0, "Invalid prompt: we've limited access to this content for safety reasons."), want{400, invalid, "invalid_prompt", "", 0, "Invalid prompt: we've limited access to this content for safety reasons.", ""}},
		"no workspace":    {turnErr("other", 0, "selected workspace missing from routing discovery"), want{503, apierror.TypeServer, "codex_unauthorized", "", noUse, signInAgain, ""}},
		"no account":      {turnErr("other", 0, "workspace routing discovery unauthorized (401)"), want{503, apierror.TypeServer, "codex_unauthorized", "", noUse, signInAgain, ""}},
		"something new":   {turnErr("quotaOfTheMoon", 0, "x"), want{502, apierror.TypeServer, "codex_error", "", 0, "x", ""}},
		"no words":        {turnErr("quotaOfTheMoon", 0, ""), want{502, apierror.TypeServer, "codex_error", "", 0, "codex: quotaOfTheMoon", ""}},
		"details":         {&codexrpc.TurnError{Code: "sandboxError", Message: "x", Details: "y z"}, want{502, apierror.TypeServer, "codex_error", "", 0, "x y z", ""}},
		"details within":  {&codexrpc.TurnError{Code: "sandboxError", Message: "x: y z", Details: "y z"}, want{502, apierror.TypeServer, "codex_error", "", 0, "x: y z", ""}},

		"401":        {turnErr("httpConnectionFailed", 401, "unexpected status 401"), want{503, apierror.TypeServer, "codex_unauthorized", "", noUse, signInAgain, ""}},
		"402":        {turnErr("httpConnectionFailed", 402, "pay"), want{429, apierror.TypeQuota, "insufficient_quota", "", noUse, "pay", ""}},
		"403":        {turnErr("httpConnectionFailed", 403, "x"), want{403, apierror.TypePermission, "codex_forbidden", "", noUse, "x", ""}},
		"403 model":  {turnErr("httpConnectionFailed", 403, `unexpected status 403 Forbidden: {"error":{"message":"no","code":"model_not_found"}}`), want{404, invalid, "model_not_found", "model", 0, "", "unexpected status 403"}},
		"403 access": {turnErr("httpConnectionFailed", 403, "Project `p` does not have access to model `m`"), want{404, invalid, "model_not_found", "model", 0, "", "Project"}},
		"404":        {turnErr("httpConnectionFailed", 404, "x"), want{404, invalid, "model_not_found", "model", 0, "x", ""}},
		"408":        {turnErr("httpConnectionFailed", 408, "x"), want{504, apierror.TypeServer, "codex_timeout", "", 0, "x", ""}},
		"413":        {turnErr("httpConnectionFailed", 413, "x"), want{400, invalid, "context_length_exceeded", "messages", 0, "x", ""}},
		"418":        {turnErr("httpConnectionFailed", 418, "x"), want{502, apierror.TypeServer, "upstream_error", "", 0, "x", ""}},
		"429":        {turnErr("responseTooManyFailedAttempts", 429, "exceeded retry limit, try again in 1m"), want{429, apierror.TypeRateLimit, "rate_limit_exceeded", "", time.Minute, "exceeded retry limit, try again in 1m", ""}},
		"500":        {turnErr("responseStreamConnectionFailed", 500, "x"), want{500, apierror.TypeServer, "upstream_error", "", 0, "x", ""}},
		"502":        {turnErr("responseStreamConnectionFailed", 502, "x"), want{502, apierror.TypeServer, "upstream_error", "", 0, "x", ""}},
		"503":        {turnErr("httpConnectionFailed", 503, "x"), want{503, apierror.TypeServer, "server_overloaded", "", second, "x", ""}},
		"504":        {turnErr("httpConnectionFailed", 504, "x"), want{504, apierror.TypeServer, "codex_timeout", "", 0, "x", ""}},
		"no answer":  {turnErr("httpConnectionFailed", 0, "x"), want{502, apierror.TypeServer, "upstream_disconnected", "", 0, "x", ""}},
		"stream cut": {turnErr("responseStreamDisconnected", 0, "x"), want{502, apierror.TypeServer, "upstream_disconnected", "", 0, "x", ""}},
		"not reached": {turnErr("other", 0, "Connection failed: error sending request"), want{502, apierror.TypeServer, "upstream_disconnected", "", 0,
			"the model's provider cannot be reached: this server has no network, or needs a proxy; Connection failed: error sending request", ""}},
		"not found out where": {turnErr("other", 0, "workspace routing discovery failed"), want{502, apierror.TypeServer, "upstream_disconnected", "", 0,
			noWorkspacePrefix + "workspace routing discovery failed", ""}},
		"not found out in time": {turnErr("other", 0, "workspace routing discovery timed out"), want{502, apierror.TypeServer, "upstream_disconnected", "", 0,
			noWorkspacePrefix + "workspace routing discovery timed out", ""}},
		"stream cut, by": {turnErr("other", 0, "stream disconnected before completion: Transport error"), want{502, apierror.TypeServer, "upstream_disconnected", "", 0, "stream disconnected before completion: Transport error", ""}},
		"flagged":        {turnErr("other", 0, "Your prompt was flagged."), want{400, invalid, "invalid_prompt", "", 0, "Your prompt was flagged.", ""}},
		"no renewal":     {turnErr("other", 0, "Failed to refresh token: 404 Not Found"), want{502, apierror.TypeServer, "upstream_error", "", 0, "Failed to refresh token: 404 Not Found", ""}},
		"too slow":       {turnErr("other", 0, "request timed out"), want{504, apierror.TypeServer, "codex_timeout", "", 0, "request timed out", ""}},
		"body broken":    {turnErr("other", 0, "Error while reading the server response: eof"), want{502, apierror.TypeServer, "upstream_disconnected", "", 0, "Error while reading the server response: eof", ""}},
		"a picture":      {turnErr("other", 0, "Image poisoning"), want{400, invalid, "", "", 0, "Image poisoning", ""}},
		"Codex's own":    {turnErr("other", 0, "internal error; agent loop died unexpectedly"), want{502, apierror.TypeServer, "codex_error", "", 0, "internal error; agent loop died unexpectedly", ""}},
		"its system's":   {turnErr("other", 0, "Permission denied (os error 13)"), want{502, apierror.TypeServer, "codex_error", "", 0, "Permission denied (os error 13)", ""}},
		"its JSON":       {turnErr("other", 0, "expected value at line 1 column 2"), want{502, apierror.TypeServer, "codex_error", "", 0, "expected value at line 1 column 2", ""}},
		"a quota's 400":  {turnErr("other", 0, `{"error":{"message":"spent","code":"insufficient_quota"}}`), want{429, apierror.TypeQuota, "insufficient_quota", "", noUse, "spent", ""}},
		"a busy 400":     {turnErr("other", 0, `{"error":{"message":"busy","code":"server_is_overloaded"}}`), want{503, apierror.TypeServer, "server_overloaded", "", second, "busy", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			checkFailure(t, c.err, c.want)
			checkFailure(t, fmt.Errorf("wrapped: %w", c.err), c.want)
		})
	}
}

// TestFromFailureBadRequest holds the provider's 400, whose body is the message.
func TestFromFailureBadRequest(t *testing.T) {
	for name, c := range map[string]struct {
		message string
		want
	}{
		"OpenAI":        {`{"error": {"message": "Invalid schema", "type": "scripted", "param": "text.format.schema", "code": "invalid_json_schema"}}`, want{400, apierror.TypeInvalidRequest, "invalid_json_schema", "text.format.schema", 0, "Invalid schema", ""}},
		"nulls":         {`{"error":{"message":"m","type":"t","param":null,"code":null}}`, want{400, apierror.TypeInvalidRequest, "", "", 0, "m", ""}},
		"number code":   {`{"error":{"message":"m","code":400}}`, want{400, apierror.TypeInvalidRequest, "", "", 0, "m", ""}},
		"ChatGPT":       {`{"detail":"The 'x' model is not supported when using Codex with a ChatGPT account."}`, want{404, apierror.TypeInvalidRequest, "model_not_found", "model", 0, "The 'x' model is not supported when using Codex with a ChatGPT account.", ""}},
		"model's code":  {`{"error":{"message":"The requested model 'x' is gone","code":"model_not_found"}}`, want{404, apierror.TypeInvalidRequest, "model_not_found", "model", 0, "The requested model 'x' is gone", ""}},
		"context":       {`{"error":{"message":"too long","code":"context_length_exceeded"}}`, want{400, apierror.TypeInvalidRequest, "context_length_exceeded", "messages", 0, "too long", ""}},
		"no body":       {`{"foo":1}`, want{400, apierror.TypeInvalidRequest, "", "", 0, `{"foo":1}`, ""}},
		"truncated":     {`{"error":{"mess`, want{400, apierror.TypeInvalidRequest, "", "", 0, `{"error":{"mess`, ""}},
		"text is kept":  {`{"error":{"message":"try http://127.0.0.1:1/ and /home/x"}}`, want{400, apierror.TypeInvalidRequest, "", "", 0, "try [url] and /home/x", ""}},
		"parameter off": {`{"error":{"message":"Parameter p is not supported with this model","code":"unsupported_parameter","param":"p"}}`, want{400, apierror.TypeInvalidRequest, "unsupported_parameter", "p", 0, "Parameter p is not supported with this model", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			checkFailure(t, turnErr("other", 0, c.message), c.want)
			checkFailure(t, turnErr("badRequest", 0, c.message), c.want)
		})
	}
	checkFailure(t, turnErr("badRequest", 0, "no JSON"), want{400, apierror.TypeInvalidRequest, "", "", 0, "no JSON", ""})
	checkFailure(t, turnErr("httpConnectionFailed", 400, `unexpected status 400 Bad Request: {"error":{"message":"m","code":"c"}}, url: http://x/`),
		want{400, apierror.TypeInvalidRequest, "c", "", 0, "m", ""})
}

func TestFromFailureCalls(t *testing.T) {
	call := func(code int, message, data string) error {
		return fmt.Errorf("start the turn: %w", &codexrpc.CallError{Method: "turn/start", Code: code, Message: message, Data: json.RawMessage(data)})
	}
	tooLarge := call(-32602, "Input exceeds the maximum length", `{"input_error_code":"input_too_large","max_chars":1048576}`)
	checkFailure(t, tooLarge, want{400, apierror.TypeInvalidRequest, "context_length_exceeded", "messages", 0, "Input exceeds the maximum length", ""})
	checkFailure(t, call(-32600, "unknown model", ""), want{400, apierror.TypeInvalidRequest, "codex_refused", "", 0, "unknown model", ""})
	checkFailure(t, call(-32602, "missing field", `[1]`), want{502, apierror.TypeServer, "codex_error", "", 0, "codex turn/start: missing field (-32602)", ""})
	checkFailure(t, call(-32603, "broken", `null`), want{502, apierror.TypeServer, "codex_error", "", 0, "codex turn/start: broken (-32603)", ""})
	checkFailure(t, call(-32001, "busy", ""), want{503, apierror.TypeServer, "codex_overloaded", "", time.Second, "", ""})
}

func TestFromFailureOthers(t *testing.T) {
	complaint := turnErr("httpConnectionFailed", 401, "Reconnecting")
	for name, c := range map[string]struct {
		err error
		want
	}{
		"idle":                  {turn.ErrIdle, want{504, apierror.TypeServer, "codex_idle_timeout", "", 0, "", ""}},
		"hangs":                 {fmt.Errorf("%w: %w: for 12s", codexrpc.ErrClosed, codexrpc.ErrUnresponsive), want{503, apierror.TypeServer, "codex_unresponsive", "", time.Second, "", ""}},
		"idle with a complaint": {fmt.Errorf("%w; last: %w", turn.ErrIdle, complaint), want{504, apierror.TypeServer, "codex_idle_timeout", "", 0, "", ""}},
		"compacted":             {turn.ErrCompacted, want{400, apierror.TypeInvalidRequest, "context_length_exceeded", "messages", 0, "", ""}},
		"shutdown":              {turn.ErrShutdown, want{503, apierror.TypeServer, "server_shutting_down", "", time.Second, "", ""}},
		"interrupted":           {turn.ErrInterrupted, want{503, apierror.TypeServer, "codex_interrupted", "", time.Second, "", ""}},
		"overloaded":            {codexrpc.ErrOverloaded, want{503, apierror.TypeServer, "codex_overloaded", "", time.Second, "", ""}},
		"closed":                {fmt.Errorf("exit status 1: %w", codexrpc.ErrClosed), want{503, apierror.TypeServer, "codex_exited", "", time.Second, codexrpc.ErrClosed.Error(), ""}},
		"too slow":              {codexrpc.ErrTooSlow, want{504, apierror.TypeServer, "codex_too_slow", "", 0, "", ""}},
		"too large a message":   {codexrpc.ErrMessageTooLarge, want{502, apierror.TypeServer, "codex_error", "", 0, "", ""}},
		"timeout":               {fmt.Errorf("thread/start: %w", codexrpc.ErrTimeout), want{504, apierror.TypeServer, "codex_timeout", "", 0, "", ""}},
		"cancelled":             {context.Canceled, want{499, apierror.TypeInvalidRequest, "client_closed_request", "", 0, "", apierror.ClientGone().Message}},
		"deadline":              {context.DeadlineExceeded, want{504, apierror.TypeServer, "codex_timeout", "", 0, "", ""}},
		"starting":              {&appserver.NotReadyError{Reason: "it starts"}, want{503, apierror.TypeServer, "codex_not_ready", "", time.Second, "", "the codex app-server is not ready"}},
		"restarting soon":       {&appserver.NotReadyError{RetryAfter: time.Millisecond}, want{503, apierror.TypeServer, "codex_not_ready", "", time.Second, "", "the codex app-server is not ready"}},
		"restarting later":      {&appserver.NotReadyError{RetryAfter: 30 * time.Second}, want{503, apierror.TypeServer, "codex_not_ready", "", 30 * time.Second, "", "the codex app-server is not ready"}},
		"not by itself":         {&appserver.NotReadyError{RetryAfter: time.Minute, Final: true}, want{503, apierror.TypeServer, "codex_not_ready", "", noUse, "the codex app-server is not ready (new).", ""}},
		"misconfigured":         {&codexrpc.CallError{Method: "thread/start", Code: -32600, Message: "failed to load configuration: no provider x"}, want{503, apierror.TypeServer, "codex_misconfigured", "", noUse, configurationRemedy, ""}},
		"unknown":               {errors.New("?"), want{500, apierror.TypeServer, "internal_error", "", 0, "The request failed within this server; its log says why.", ""}},
	} {
		t.Run(name, func(t *testing.T) { checkFailure(t, c.err, c.want) })
	}
	if own := apierror.ModelNotFound("m"); APIError(fmt.Errorf("wrapped: %w", own)) != own {
		t.Error("an error that is one already was made another")
	}
	if e := APIError(nil); e != nil {
		t.Errorf("no failure became %v", e)
	}
	if e := APIError(&appserver.NotReadyError{Reason: "x", Remedy: "install codex."}); !strings.Contains(e.Message, "install codex. Please") || !strings.Contains(e.Message, "/readyz") {
		t.Errorf("message %q", e.Message)
	}
}

// TestShown: what tells of this machine, or of the provider's, is for the log
// alone, unless the log has nothing of the failure since it may quote the request.
func TestShown(t *testing.T) {
	const url = ", url: http://127.0.0.1:1/v1"
	for name, c := range map[string]struct {
		err             error
		message, detail string
	}{
		"provider":  {turnErr("httpConnectionFailed", 403, "unexpected status 403: no"+url), "unexpected status 403: no", "unexpected status 403: no" + url},
		"a 400":     {turnErr("badRequest", 0, "/tools/0 is wrong"+url), "/tools/0 is wrong", ""},
		"silence":   {fmt.Errorf("%w; its last message: lost%s", turn.ErrIdle, url), turn.ErrIdle.Error() + "; its last message: lost", turn.ErrIdle.Error() + "; its last message: lost" + url},
		"exit":      {fmt.Errorf("%w: exit status 1; stderr: token s3cret", codexrpc.ErrClosed), codexrpc.ErrClosed.Error(), codexrpc.ErrClosed.Error() + ": exit status 1; stderr: token s3cret"},
		"refusal":   {&codexrpc.CallError{Method: "thread/start", Code: -32600, Message: "failed to load configuration: /home/x/config.toml:1:2"}, configurationRemedy, "failed to load configuration: /home/x/config.toml:1:2"},
		"call":      {&codexrpc.CallError{Method: "m", Code: -1, Message: "open /home/x"}, "codex m: open [path] (-1)", "codex m: open /home/x (-1)"},
		"internal":  {errors.New("open /home/x"), "The request failed within this server; its log says why.", "open /home/x"},
		"left":      {context.Canceled, apierror.ClientGone().Message, ""},
		"not ready": {&appserver.NotReadyError{State: appserver.StateBackoff, Reason: "no /home/x", Remedy: "do this"}, "the codex app-server is not ready (backoff): do this. Please try again later; GET /readyz tells when it is ready.", "the codex app-server is not ready (backoff): no /home/x. Please try again later; GET /readyz tells when it is ready."},
		"final":     {&appserver.NotReadyError{State: appserver.StateBackoff, Reason: "no /home/x", Remedy: "do this", Final: true}, "the codex app-server is not ready (backoff): do this.", "the codex app-server is not ready (backoff): no /home/x."},
		"no remedy": {&appserver.NotReadyError{State: appserver.StateStopped, Reason: "x"}, "the codex app-server is not ready (stopped). Please try again later; GET /readyz tells when it is ready.", "the codex app-server is not ready (stopped): x. Please try again later; GET /readyz tells when it is ready."},
	} {
		t.Run(name, func(t *testing.T) {
			if e := APIError(c.err); e.Message != c.message || e.Detail != c.detail {
				t.Errorf("shown %q, logged %q", e.Message, e.Detail)
			}
		})
	}
	if e := APIError(turnErr("sandboxError", 0, strings.Repeat("é", maxClientMessage))); len(e.Message) > maxClientMessage+len("…") || len(e.Detail) != 2*maxClientMessage {
		t.Errorf("%d bytes are shown and %d logged", len(e.Message), len(e.Detail))
	}
}

func TestRetryDelay(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"":                                      time.Second,
		"try again later":                       time.Second,
		"Please try again in 11ms.":             11 * time.Millisecond,
		"TRY AGAIN IN 2.5S":                     2500 * time.Millisecond,
		"try again in 1m":                       time.Minute,
		"try again in 1m30.5s or so":            90*time.Second + 500*time.Millisecond,
		"try again in 2h3m":                     2*time.Hour + 3*time.Minute,
		"try again in 6 minutes":                time.Second,
		"try again in 0s":                       time.Second,
		"try again in 99999999999999999999999h": time.Second,
	} {
		if got := newError(apierror.RateLimited, text, time.Time{}).RetryAfter; got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestSpentPlan: a client is told when a spent plan resets, and to try again only if that is soon.
func TestSpentPlan(t *testing.T) {
	for name, test := range map[string]struct {
		resets   time.Time
		min, max time.Duration
	}{
		"not told": {},
		"later":    {time.Now().Add(time.Hour), 59 * time.Minute, time.Hour},
		"soon":     {time.Now().Add(time.Minute), 59 * time.Second, time.Minute},
		"over":     {time.Now().Add(-time.Hour), time.Second, time.Second},
	} {
		e := APIError(&codexrpc.TurnError{Code: "usageLimitExceeded", Message: "You’ve hit your usage limit.", ResetsAt: test.resets})
		if e.Status != 429 || e.Code != "insufficient_quota" || (e.ShouldRetry == nil) != (name == "soon" || name == "over") || e.RetryAfter < test.min || e.RetryAfter > test.max {
			t.Errorf("%s: %+v", name, e)
		}
		if strings.Contains(e.Message, "(This limit resets in ") != (name == "later") {
			t.Errorf("%s: %s", name, e.Message)
		}
	}
	told := APIError(&codexrpc.TurnError{Code: "usageLimitExceeded", Message: "Upgrade or try again at 8:10 PM.", ResetsAt: time.Now().Add(time.Hour)})
	if !strings.HasSuffix(told.Message, "8:10 PM.") {
		t.Error(told.Message)
	}
}

// TestKinds checks what a failure says: that the provider refuses the instructions, or the form of the
// request, or that it may be over in a moment; and how long the provider asks to wait.
func TestKinds(t *testing.T) {
	const body = `{"detail":"Instructions are not valid"}`
	in := time.Now().Add(time.Minute)
	kinds := map[string]func(error) bool{"instructions": RefusesInstructions, "form": RejectsRequest, "transient": IsTransient}
	for name, c := range map[string]struct {
		failure error
		kind    string // empty: none of these
		after   time.Duration
	}{
		"as codex tells it":      {&codexrpc.TurnError{Code: "other", Message: body}, "instructions", 0},
		"wrapped":                {fmt.Errorf("turn: %w", &codexrpc.TurnError{Code: "badRequest", Message: body}), "instructions", 0},
		"with the status":        {&codexrpc.TurnError{Code: "httpConnectionFailed", HTTPStatus: 400, Message: "unexpected status 400 Bad Request: " + body + ", url: x"}, "instructions", 0},
		"with a full stop":       {&codexrpc.TurnError{Code: "other", Message: `{"detail":"instructions are not valid."}`}, "instructions", 0},
		"another status":         {&codexrpc.TurnError{Code: "httpConnectionFailed", HTTPStatus: 401, Message: "unexpected status: " + body}, "", 0},
		"another detail":         {&codexrpc.TurnError{Code: "other", Message: `{"detail":"Model not found: Instructions are not valid"}`}, "", 0},
		"what a client has sent": {&codexrpc.TurnError{Code: "other", Message: `{"error":{"message":"bad input: {\"detail\":\"Instructions are not valid\"}"}}`}, "form", 0},
		"no turn's failure":      {errors.New(body), "", 0},
		"none":                   {nil, "", 0},
		"form":                   {turnErr("badRequest", 400, "no parallel calls"), "form", 0},
		"parameter":              {turnErr("badRequest", 400, `{"error":{"code":"unsupported_parameter","message":"no"}}`), "form", 0},
		"instructions":           {turnErr("badRequest", 400, `{"detail":"Instructions are not valid"}`), "instructions", 0},
		"model":                  {turnErr("badRequest", 400, `{"error":{"code":"model_not_found","message":"no"}}`), "", 0},
		"length":                 {turnErr("contextWindowExceeded", 0, "too long"), "", 0},
		"policy":                 {turnErr("cyberPolicy", 0, "no"), "", 0},
		"prompt":                 {turnErr("other", 0, "Your prompt was flagged."), "", 0},
		"prompt, code":           {turnErr("badRequest", 400, `{"error":{"code":"invalid_prompt","message":"flagged"}}`), "", 0},
		"500":                    {turnErr("internalServerError", 0, "no"), "transient", 0},
		"connection":             {codexrpc.ErrClosed, "", 0},
		"502":                    {turnErr("responseTooManyFailedAttempts", 502, "exceeded"), "transient", 0},
		"overloaded":             {turnErr("serverOverloaded", 0, "overloaded"), "transient", 0},
		"a cut":                  {turnErr("responseStreamDisconnected", 0, "stream disconnected before completion"), "transient", 0},
		"no one":                 {turnErr("other", 0, "stream disconnected before completion: error sending request"), "transient", 0},
		"new tokens":             {turnErr("other", 0, "Account credentials changed during refresh."), "transient", 0},
		"no account":             {turnErr("other", 0, "workspace routing discovery failed"), "", 0},
		"no login":               {turnErr("other", 0, "workspace routing discovery unauthorized (401)"), "", 0},
		"429":                    {turnErr("responseTooManyFailedAttempts", 429, "exceeded"), "", 0},
		"429, a hint":            {turnErr("responseTooManyFailedAttempts", 429, "Please try again in 3s."), "", 3 * time.Second},
		"429, a time":            {&codexrpc.TurnError{Code: "rateLimitExceeded", ResetsAt: in}, "", time.Minute},
		"403":                    {turnErr("responseTooManyFailedAttempts", 403, "a page"), "", 0},
		"404":                    {turnErr("responseTooManyFailedAttempts", 404, "no such model"), "", 0},
		"400":                    {turnErr("badRequest", 0, "no"), "form", 0},
		"another":                {errors.New("stream disconnected"), "", 0},
	} {
		for kind, is := range kinds {
			if got := is(c.failure); got != (kind == c.kind) {
				t.Errorf("%s: %s: %t", name, kind, got)
			}
		}
		if e, ok := errors.AsType[*codexrpc.TurnError](c.failure); ok && RetryAfter(e).Round(time.Second) != c.after {
			t.Errorf("%s: wait for %s", name, RetryAfter(e))
		}
	}
}

// FuzzTurnError: whatever a provider says about a failed turn, the error of the API has a
// status for failures, a sentence, JSON, and delays that SDKs can read.
func FuzzTurnError(f *testing.F) {
	f.Add(`{"error":{"message":"no","code":"model_not_found","param":"model"}}`, "badRequest", 400, "")
	f.Add(`unexpected: {"detail":"Instructions are not valid"} {`, "badRequest", 0, "x")
	f.Add("Rate limit reached. Please try again in 1h2m3.5s.", "rateLimitExceeded", 0, "")
	f.Add("try again in 9999999999h or try again in 1s", "rateLimitExceeded", 0, "")
	f.Add("\xff", "httpConnectionFailed", 429, "http://10.0.0.1:80/")
	f.Fuzz(func(t *testing.T, message, code string, status int, details string) {
		failure := &codexrpc.TurnError{Message: message, Code: code, HTTPStatus: status, Details: details}
		e := APIError(failure)
		if e.Status < 400 || e.Status > 599 || e.Message == "" || e.RetryAfter < 0 {
			t.Fatalf("%+v became %+v", failure, e)
		}
		answer := httptest.NewRecorder()
		if err := e.Respond(answer, httptest.NewRequest(http.MethodPost, "/", nil)); err != nil || !json.Valid(answer.Body.Bytes()) {
			t.Fatalf("%+v was answered with %q, %v", failure, answer.Body, err)
		}
		header := answer.Header()
		seconds, errSeconds := strconv.ParseInt(header.Get("Retry-After"), 10, 64)
		delay, errDelay := time.ParseDuration(header.Get("Retry-After-Ms") + "ms")
		switch {
		case e.RetryAfter == 0 && header.Get("Retry-After")+header.Get("Retry-After-Ms") != "":
			t.Fatalf("no delay, but %v", header)
		case e.RetryAfter > 0 && (errSeconds != nil || errDelay != nil || seconds < 1 || float64(seconds) < delay.Seconds()):
			t.Fatalf("a delay of %v, but %v", e.RetryAfter, header)
		}
		if RefusesInstructions(failure) && e.Status != 400 {
			t.Fatalf("%+v refuses instructions with a %d", failure, e.Status)
		}
	})
}

func TestWithoutURLs(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"unexpected status 401 Unauthorized: scripted 401, url: http://127.0.0.1:1/v1/responses":                                                                                                "unexpected status 401 Unauthorized: scripted 401",
		"unexpected status 403 Forbidden: no, url: https://h.example/v1/responses?key=s3cret, cf-ray: a-b, request id: req_1":                                                                   "unexpected status 403 Forbidden: no, cf-ray: a-b, request id: req_1",
		"error sending request for url (http://10.0.0.1:8080/v1/responses)":                                                                                                                     "error sending request",
		"error sending request for url (http://[::1]:8080/v1/responses): tcp connect error: Connection refused (os error 111)":                                                                  "error sending request: tcp connect error: Connection refused (os error 111)",
		"Find your key at https://platform.openai.com/account/api-keys, or buy at https://chatgpt.com/codex/settings/usage.":                                                                    "Find your key at https://platform.openai.com/account/api-keys, or buy at https://chatgpt.com/codex/settings/usage.",
		"no: https://chatgpt.com/backend-api/codex, https://api.openai.com/v1/x, https://help.openai.com.evil.org/, http://openai.com, https://u:p@openai.com/, https://help.openai.com/?key=1": "no: [url], [url], [url], [url], [url], [url]",
		"Find your key at https://platform.example.com/account/keys.":                                                                                                                           "Find your key at [url].",
		"see <https://h/a>, 'wss://h/b' and (ftp://h/c).":                                                                                                                                       "see <[url]>, '[url]' and ([url]).",
		`{"error":{"url":"http:\/\/h:1\/v1\/x","at":"https://user:pw@h/"}}`:                                                                                                                     `{"error":{"url":"[url]","at":"[url]"}}`,
		"HTTPS://H.EXAMPLE/A and //h and a://":                                                                                                                                                  "[url] and //h and [url]",
		"from 127.0.0.1:8080, [::1]:8080 and [fe80::1%eth0], 10.1.2.3":                                                                                                                          "from [address], [address] and [address], [address]",
		"dial api.h.example:443: no; localhost:11434: no; localhost is not":                                                                                                                     "dial [address]: no; [address]: no; localhost is not",
		"llama3:8b, gpt-oss:20, 0.169.0, 12:30:45, 1/5, items[3]: a.b: c, try again in 1m30.5s":                                                                                                 "llama3:8b, gpt-oss:20, 0.169.0, 12:30:45, 1/5, items[3]: a.b: c, try again in 1m30.5s",
		"Reconnecting... 2/5: é “x”":                                                                                                                                                            "Reconnecting... 2/5: é “x”",
	} {
		if got := withoutURLs(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestWithoutPaths(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"failed to load configuration: /home/x/.codex/config.toml:3:5: bad": "failed to load configuration: [path]: bad",
		`open "/Users/J Doe/.codex/auth.json": denied`:                      `open "[path]": denied`,
		"`/opt/a b` and '/srv/a b' (/tmp/x), path=/var/lib.":                "`[path]` and '[path]' ([path]), path=[path].",
		`C:\Users\x\config.toml and \\server\share and ~/.codex`:            `[path] and [path] and [path]`,
		"1/5, and/or, a / b, application/json, items[0], ///":               "1/5, and/or, a / b, application/json, items[0], ///",
	} {
		if got := withoutPaths(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// Texts which look like URLs and paths at every byte become at most four times as long.
func TestRedactGrowth(t *testing.T) {
	const size = maxClientMessage / 8
	for _, part := range []string{
		"a", "1.", "a.", "a.a:", "1.1.1.1:", "1.1.1.1:1.", "://", "a://", ", url: ", ", url: x://", " for url (x://", "[:", "[::%", "[::%\"",
		"\"/a", "'/a\"/b`/c", "'/a\"/b\"", " /a:", `\/`, `C:\a`,
	} {
		if got := withoutPaths(withoutURLs(strings.Repeat(part, size/len(part)))); len(got) > 4*size {
			t.Errorf("%q became %d bytes", part, len(got))
		}
	}
}

// FuzzRedact: whatever Codex says, no URL and no address with a port is left,
// and a second pass finds nothing more.
func FuzzRedact(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		got := withoutURLs(text)
		for word := range strings.FieldsSeq(got) {
			u, errURL := url.Parse(word)
			_, errAddress := netip.ParseAddrPort(word)
			if errAddress == nil || errURL == nil && u.Scheme != "" && u.Host != "" {
				t.Errorf("%q became %q, with %q", text, got, word)
			}
		}
		if again := withoutURLs(got); again != got {
			t.Errorf("%q became %q, then %q", text, got, again)
		}
		if !strings.ContainsAny(text, ":.") && got != text {
			t.Errorf("%q became %q", text, got)
		}
		if !strings.ContainsAny(got, `/\`) && withoutPaths(got) != got {
			t.Errorf("%q became %q", got, withoutPaths(got))
		}
	})
}

// TestCodesAreListed: errors of this server have labels of their own.
func TestCodesAreListed(t *testing.T) {
	listed := func(what any, code apierror.Code) {
		if code != "" && code.Label() != string(code) {
			t.Errorf("%v: the code %q is not listed", what, code)
		}
	}
	for _, s := range sentinels {
		listed(s.err, s.Code)
	}
	for variant, class := range turnClasses {
		listed(variant, class.Code)
	}
	for code, class := range providerClasses {
		listed(code, class.Code)
	}
	for status, class := range statusClasses {
		listed(status, class.Code)
	}
	for _, c := range messageClasses {
		listed(c.message, c.Code)
	}
}
