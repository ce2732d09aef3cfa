package messages

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/failures"
)

func tooLong(t testing.TB) *apierror.Error {
	t.Helper()
	e := failures.APIError(&codexrpc.TurnError{Code: "contextWindowExceeded", Message: "The context has no room."})
	if e.Code != apierror.CodeContextLength {
		t.Fatalf("%+v", e)
	}
	return e
}

// TestEncodeError: the statuses, the types and the headers by which Anthropic's clients decide.
func TestEncodeError(t *testing.T) {
	_, thread := Decode([]byte(`{"model":"m","messages":[{"role":"user","content":"q"}],"thread":{"type":"create"}}`))
	_, deep := Decode([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text"}]}]}`))
	for name, c := range map[string]struct {
		err    *apierror.Error
		status int
		body   string // a part of it
		retry  string
	}{
		"a field":        {deep, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages.0.content.0.text: is required."},"request_id":"req"}`, ""},
		"a thread":       {thread, 400, `"details":{"error_code":"thread_unsupported_request","unsupported":["thread"]}`, ""},
		"a wrong key":    {apierror.Unauthorized(), 401, `"type":"authentication_error"`, "false"},
		"no model":       {apierror.ModelNotFound("x"), 404, `"type":"not_found_error"`, ""},
		"a large body":   {apierror.PayloadTooLarge(7), 413, `"type":"request_too_large"`, ""},
		"a full queue":   {apierror.QueueFull(), 429, `"type":"rate_limit_error"`, ""},
		"a spent plan":   {failures.APIError(&codexrpc.TurnError{Code: codexrpc.CodeUsageLimit}), 429, `"type":"rate_limit_error"`, "false"},
		"an overload":    {failures.APIError(&codexrpc.TurnError{Code: "serverOverloaded"}), 529, `"type":"overloaded_error"`, ""},
		"a full codex":   {failures.APIError(codexrpc.ErrOverloaded), 529, `"type":"overloaded_error"`, ""},
		"a long prompt":  {tooLong(t), 400, `"message":"prompt is too long: The context has no room."`, ""},
		"a codex":        {failures.APIError(codexrpc.ErrClosed), 503, `"type":"api_error"`, ""},
		"a silent model": {failures.APIError(codexrpc.ErrTimeout), 504, `"type":"timeout_error"`, ""},
	} {
		h := http.Header{RequestIDHeader: {"req"}}
		c.err.SetHeaders(h)
		status, body := EncodeError(c.err, h)
		if status != c.status || !strings.Contains(string(body), c.body) || h.Get("X-Should-Retry") != c.retry {
			t.Errorf("%s: %d %s, retry %q", name, status, body, h.Get("X-Should-Retry"))
		}
	}
}
