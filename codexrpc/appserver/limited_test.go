package appserver

import (
	"testing"
)

// TestHeed checks which lines of Codex's log are read, and which of them say that the provider
// limits the rate. Without a connection, such a line panics.
func TestHeed(t *testing.T) {
	const (
		socket = "2026-11-24T14:17:58.456253Z  INFO codex_otel.trace_safe: event.name=\"codex.websocket_connect\" duration_ms=47 "
		status = "http.response.status_code="
		thread = " success=\"false\" error.message=\"x\" auth.reauth=false conversation.id=01a20deb-ab81-7460-ad74-c2f4c64cfbf6 app.version=0.169.0"
		event  = "2026-11-24T14:17:58.456253Z  INFO codex_otel.trace_safe: event.name=\"codex.sse_event\" event.kind=response.completed error.message="
		ended  = " event.timestamp=2026-11-24T14:17:58.456Z conversation.id=01a20deb-ab81-7460-ad74-c2f4c64cfbf6 app.version=0.169.0"
		answer = "2026-11-24T14:18:04.521885Z DEBUG codex_http_client::client: Request completed method=POST url=https://chatgpt.com/backend-api/codex/"
		after  = ` headers={"content-type": "application/json", "retry-after": "6", "content-length": "87"} version=HTTP/2.0`
	)
	const passed, read, heeded = "passed on", "read", "heeded"
	for line, want := range map[string]string{
		socket + status + "429" + thread: heeded,
		socket + status + "426" + thread: read,
		socket + thread:                  read,
		event + "exceeded retry limit, last status: 429 Too Many Requests" + ended:                                  heeded,
		event + "unexpected status 503 Service Unavailable: busy" + ended:                                           heeded,
		event + "The model has said: unexpected" + ended:                                                            read,
		answer + "responses status=429 Too Many Requests" + after:                                                   heeded,
		answer + "responses status=503 Service Unavailable" + after:                                                 heeded,
		answer + "responses status=200 OK" + after:                                                                  read,
		answer + "models status=429 Too Many Requests" + after:                                                      read,
		answer + "responses status=429 Too Many Requests headers={} version=HTTP/2.0":                               read,
		"2026-11-24T15:05:13.814Z ERROR codex_login::auth::manager: Failed to refresh token":                        passed,
		"2026-11-24T14:17:58.456Z ERROR codex_api: failed to connect to Responses WebSocket":                        passed,
		"quoted: " + socket + status + "429" + thread:                                                               passed,
		"2026-11-24T14:17:58.456Z DEBUG session_loop{a=1}: codex_http_client::client: Request completed status=200": passed,
	} {
		in := &instance{}
		got := func() (got string) {
			defer func() {
				if recover() != nil {
					got = heeded
				}
			}()
			if in.heed(line) {
				return read
			}
			return passed
		}()
		if got != want {
			t.Errorf("%q: %s", line, got)
		}
	}
}
