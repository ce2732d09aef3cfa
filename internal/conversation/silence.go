package conversation

import (
	"context"
	"log/slog"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// errSilent ends a turn whose model provider is silent while another login is free.
var errSilent = &codexrpc.TurnError{
	Message: "the model's provider has taken the request and gives no sign", Code: "responseStreamDisconnected",
}

// silentRest is how long a login rests after its provider gave no sign. Without a rest, the next
// request would wait as long again.
const silentRest = time.Minute

// countedWait is the divisor of the time that a turn waits for a first sign of the provider. If a
// client leaves within the first sixth of that time, its turn does not count against the provider.
const countedWait = 6

// WatchSilence lets the login rest if the model gives no sign in time. If another login is free, it
// also ends the turn, and the turn is started again with that login. Turns whose clients leave
// before that time count together towards a rest. Once the model has begun, it may be silent for
// long. WatchSilence does nothing if there is no other login, or if the turn has moved to this one
// from another. The caller calls stop when the turn has ended.
func (s *Session) WatchSilence(ctx context.Context) (stop func()) {
	patience := s.now.place.Process.FirstSign()
	if !s.now.others || s.moves > 0 || patience == 0 {
		return func() {}
	}
	opener, conn, thread, login, began := s.opener, s.now.place.Conn, s.now.thread.ID(), s.now.login, time.Now()
	rest := func() {
		opener.Logger.LogAttrs(ctx, slog.LevelWarn, "the model's provider has given no sign of a turn; its login rests", slog.String("for", silentRest.String()))
		login.Falter(errSilent, silentRest)
	}
	timer := time.AfterFunc(patience, func() {
		if !conn.Beginning(thread) {
			return
		}
		rest()
		if opener.anotherFree(login) {
			conn.FailBeginning(thread, errSilent)
		}
	})
	return func() {
		waited := time.Since(began)
		if timer.Stop() && ctx.Err() != nil && waited >= patience/countedWait && conn.Beginning(thread) && login.GiveUp(waited, patience) {
			rest()
		}
	}
}
