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

// silentRest is for how long a login rests whose provider gives no sign: to try it again costs the
// next request as long a wait.
const silentRest = time.Minute

// countedWait is the part of the patience with a provider after which a turn that is given up counts:
// a client that leaves sooner says nothing about it.
const countedWait = 6

// WatchSilence lets the login rest if the turn begins without a sign of the model, and ends the
// turn then if another login is free, so that it moves there. Turns that their clients give up
// before count together. Once the model has begun it may be silent for long. Nothing is done if
// there is no other login, which would help. The caller calls stop when the turn has ended.
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
