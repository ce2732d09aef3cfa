package conversation

import (
	"context"
	"log/slog"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// errSilent is the failure of a turn whose provider has sent nothing, if another login is free.
var errSilent = &codexrpc.TurnError{
	Message: "the model's provider has taken the request and gives no sign", Code: "responseStreamDisconnected",
}

// silentRestTime is how long a login rests (is not used) after its provider has sent nothing.
// Without a rest, the next request with this login would wait just as long.
const silentRestTime = time.Minute

// countedWaitDivisor excludes short waits of clients that leave. WatchSilence counts such a wait
// only if it was at least Process.FirstSign divided by countedWaitDivisor.
const countedWaitDivisor = 6

// WatchSilence waits for a first sign of the model, but at most Process.FirstSign. If there is
// none, the login rests (no turn uses it for a while). If another login is free, WatchSilence also
// fails the turn, so that it is started again with that login. If clients leave before a sign,
// WatchSilence adds up their waits; the sum may make the login rest, too.
//
// WatchSilence does nothing if there is no other app-server, if Process.FirstSign is 0, or if the
// turn was already started again because the provider failed with another login. The caller calls
// stop when the turn has ended.
func (s *Session) WatchSilence(ctx context.Context) (stop func()) {
	firstSign := s.current.place.Process.FirstSign()
	if !s.current.hasOtherLogins || s.loginSwitches > 0 || firstSign == 0 {
		return func() {}
	}
	opener, conn, thread, login, began := s.opener, s.current.place.Conn, s.current.thread.ID(), s.current.login, time.Now()
	restLogin := func() {
		opener.Logger.LogAttrs(ctx, slog.LevelWarn, "the model's provider has given no sign of a turn; its login rests", slog.String("for", silentRestTime.String()))
		login.Falter(errSilent, silentRestTime)
	}
	timer := time.AfterFunc(firstSign, func() {
		if !conn.Beginning(thread) {
			return
		}
		restLogin()
		if opener.hasOtherFreeLogin(login) {
			conn.FailBeginning(thread, errSilent)
		}
	})
	return func() {
		waited := time.Since(began)
		if timer.Stop() && ctx.Err() != nil && waited >= firstSign/countedWaitDivisor && conn.Beginning(thread) && login.GiveUp(waited, firstSign) {
			restLogin()
		}
	}
}
