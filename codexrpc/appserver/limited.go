package appserver

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// prewarmFailed is in the line of Codex's log which says that a new thread got no WebSocket to
// the model's provider, before the reason. If the provider limits the rate, Codex then waits
// for as long as it was told to, perhaps a minute, without an event, and tries again.
const prewarmFailed = "startup websocket prewarm setup failed: "

// limitedStatus is in that reason.
var limitedStatus = regexp.MustCompile(`last status: 429\b`)

// heed ends the turns that wait in vain because the provider limits the rate, as it says in a
// line of Codex's log.
func (in *instance) heed(line string) {
	if _, reason, ok := strings.Cut(line, prewarmFailed); ok && limitedStatus.MatchString(reason) {
		in.conn.FailBeginning(&codexrpc.TurnError{
			Message: reason, Code: "responseTooManyFailedAttempts", HTTPStatus: http.StatusTooManyRequests,
		})
	}
}
