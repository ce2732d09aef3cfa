package conversation

import (
	"context"
	"log/slog"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// errSilent is the failure of a turn whose provider is silent, if another login is free.
var errSilent = &codexrpc.TurnError{
	Message: "the model's provider has taken the request and gives no sign", Code: "responseStreamDisconnected",
}

// silentRestTime is how long a login rests (is not used) after its provider was silent. Without a rest,
// the next request would wait as long as this one.
const silentRestTime = time.Minute

// countedWaitDivisor is a divisor. If a client leaves within the first sixth (1/countedWait) of the time
// that WatchSilence waits for a first sign, WatchSilence does not count that wait.
const countedWaitDivisor = 6

// WatchSilence waits for a first sign of the model, at most Process.FirstSign. If there is none, it
// makes the login rest (no turn uses it for a while). If another login is free, it also fails the
// turn, so that the turn is started again with that login. If several clients leave earlier without
// a sign, the times of their waits add up, and may make the login rest as well. WatchSilence does
// nothing if there is no other login, or if the turn has already moved here from another login. The
// caller calls stop when the turn has ended.
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
