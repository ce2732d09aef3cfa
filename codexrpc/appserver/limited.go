package appserver

import (
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// HeededLog are the directives of RUST_LOG by which Codex logs what it tells nobody otherwise: how
// the handshake of a WebSocket to the model's provider went, and the headers of the answers to its
// requests. The lines are read here and not logged.
const HeededLog = "codex_otel.trace_safe[{auth.reauth}]=info,codex_http_client::client[{headers}]=debug"

var (
	// connected is a line about a handshake, and answered one about an answer, at its beginning.
	connected = regexp.MustCompile(`^\S+ +INFO codex_otel\.trace_safe: event\.name="codex\.websocket_connect" `)
	answered  = regexp.MustCompile(`^\S+ +DEBUG codex_http_client::client: Request completed `)

	// limitedSocket finds the thread of a handshake that was refused by a limit of the rate.
	limitedSocket = regexp.MustCompile(` http\.response\.status_code=429 .* conversation\.id=([0-9a-f-]+)`)
	// askedToWait finds how many seconds the provider wants to be left alone.
	askedToWait = regexp.MustCompile(`/responses status=(?:429|503) .*"retry-after": "(\d{1,9})"`)
)

// ErrSocketLimited is the failure of a turn whose WebSocket was refused by a limit of the rate. Over
// HTTP the provider may answer, or say when it will.
var ErrSocketLimited error = &codexrpc.TurnError{
	Message: "the model's provider limits the rate: it refuses a WebSocket with 429 Too Many Requests",
	Code:    "responseTooManyFailedAttempts", HTTPStatus: http.StatusTooManyRequests,
}

// heed reads a line of Codex's log, and reports whether it is there for that alone.
//
// When a handshake meets a limit of the rate, Codex waits for as long as it was told to, perhaps a
// minute, without an event, and then asks over HTTP. So the turn ends here.
func (in *instance) heed(line string) (only bool) {
	switch {
	case answered.MatchString(line):
		if found := askedToWait.FindStringSubmatch(line); found != nil {
			seconds, _ := strconv.Atoi(found[1]) // it has nine digits at most
			in.conn.AskedToWait(time.Duration(seconds) * time.Second)
		}
		return true
	case connected.MatchString(line):
		if found := limitedSocket.FindStringSubmatch(line); found != nil {
			in.conn.FailBeginning(found[1], ErrSocketLimited)
		}
		return true
	}
	return false
}
