package appserver

import (
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// HeededLog are the directives of RUST_LOG by which Codex logs what it tells nobody otherwise: how
// the handshake of a WebSocket to the model's provider and the requests over it went, and the headers
// of the answers to its requests. The lines are read here and not logged.
const HeededLog = "codex_otel.trace_safe[{error.message}]=info,codex_http_client::client[{headers}]=debug"

var (
	// asked is a line about a request or a handshake, and answered one about an answer, at its beginning.
	asked    = regexp.MustCompile(`^\S+ +INFO codex_otel\.trace_safe: event\.name="codex\.`)
	answered = regexp.MustCompile(`^\S+ +DEBUG codex_http_client::client: Request completed `)

	// limitedSocket finds the thread of a handshake that was refused by a limit of the rate, or of a
	// request over a WebSocket that was, or for which the provider is overloaded.
	limitedSocket = regexp.MustCompile(`event\.name="codex\.(?:websocket_connect" .* http\.response\.status_code=429 |` +
		`sse_event" .*error\.message=(?:exceeded retry limit, last status: 429|unexpected status 503) ).* conversation\.id=([0-9a-f-]+) app\.version=`)
	// askedToWait finds how many seconds the provider wants to be left alone.
	askedToWait = regexp.MustCompile(`/responses status=(?:429|503) .*"retry-after": "(\d{1,9})"`)
)

// ErrSocketLimited is the failure of a turn whose WebSocket, or whose request over one, was refused by
// a limit of the rate or by an overload. Over HTTP the provider may answer, or say when it will.
var ErrSocketLimited error = &codexrpc.TurnError{
	Message: "the model's provider limits the rate: it refuses a WebSocket with 429 Too Many Requests",
	Code:    "responseTooManyFailedAttempts", HTTPStatus: http.StatusTooManyRequests,
}

// heed reads a line of Codex's log, and reports whether it is there for that alone.
//
// When a handshake or a request over a WebSocket meets a limit of the rate, Codex waits for as long
// as it was told to, perhaps a minute, without an event, and then asks over HTTP. So the turn ends here.
func (in *instance) heed(line string) (only bool) {
	switch {
	case answered.MatchString(line):
		if found := askedToWait.FindStringSubmatch(line); found != nil {
			seconds, _ := strconv.Atoi(found[1]) // it has nine digits at most
			in.conn.AskedToWait(time.Duration(seconds) * time.Second)
		}
		return true
	case asked.MatchString(line):
		if found := limitedSocket.FindStringSubmatch(line); found != nil {
			in.conn.FailBeginning(found[1], ErrSocketLimited)
		}
		return true
	}
	return false
}
