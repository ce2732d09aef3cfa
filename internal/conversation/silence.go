package conversation

import (
	"context"
	"log/slog"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// errSilent is the reason for which a login rests after its provider has sent nothing. If another login is
// free, errSilent is also the failure of the turn.
var errSilent = &codexrpc.TurnError{
	Message: "the model's provider has taken the request and gives no sign", Code: "responseStreamDisconnected",
}

// silentRestTime is how long a login rests (is not used) after its provider has sent nothing.
// Without a rest, the next request with this login would wait just as long.
const silentRestTime = time.Minute

// countedWaitDivisor determines which waits watchSilence counts. If a client leaves before a sign,
// the wait counts only if it was at least Process.FirstSign divided by countedWaitDivisor.
const countedWaitDivisor = 6

// watchSilence starts a timer. If the model has given no sign after Process.FirstSign, the login rests (no
// turn uses it for a while). If another login is free, the turn also fails, so that it is started again
// with the other login. The waits of clients that leave before a sign are added up; a sum of
// Process.FirstSign makes the login rest, too.
//
// watchSilence does nothing without another login, if Process.FirstSign is 0, or if another login was tried
// already because the provider failed. The caller calls stop when the turn has ended.
func (t *Turn) watchSilence(ctx context.Context) (stop func()) {
	firstSign := t.current.place.Process.FirstSign()
	if !t.current.hasOtherLogins || t.loginSwitches > 0 || firstSign == 0 {
		return func() {}
	}
	opener, conn, thread, login, model, began := t.opener, t.current.place.Conn, t.current.thread.ID(), t.current.member.Login, t.model, time.Now()
	restLogin := func() {
		opener.Logger.LogAttrs(ctx, slog.LevelWarn, "the model's provider has given no sign of a turn; its login rests", slog.String("for", silentRestTime.String()))
		login.Fail("", errSilent, silentRestTime)
	}
	timer := time.AfterFunc(firstSign, func() {
		if !conn.Beginning(thread) {
			return
		}
		restLogin()
		if opener.hasOtherFreeLogin(login, model) {
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
