package conversation

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// hasOtherFreeLogin reports whether another login than the given one is free for a model. A login is not free
// while it rests: after a failure, no turn uses it for a while.
func (o *Opener) hasOtherFreeLogin(login *loginstate.Login, model string) bool {
	lease, err := o.Upstream.Lease()
	if err != nil {
		return false
	}
	defer lease.Release()
	other, done := lease.Peek(model)
	defer done()
	return other.Login != login && other.Login.Rests(model) == nil
}

// noPicturesLeft reports whether the login has no pictures left, or can make none at all.
func noPicturesLeft(err error) bool {
	refused, ok := errors.AsType[*turn.PictureError](err)
	return ok && refused.Spent || errors.Is(err, turn.ErrNoPictures)
}

// avoidsLogin reports whether the turn should avoid this member's login: the turn makes a picture and the login has
// no pictures left, the provider refuses the model to the login, the request refuses the login, or it names the Luna
// Reserve, which the login may not use. In the last cases, refusal is the failure of the turn with which the provider
// has refused the model, or the error of the request.
func (t *Turn) avoidsLogin(m *Member) (refusal error, avoids bool) {
	login := m.Login
	refusal = login.ModelRefusal(t.model)
	if strings.EqualFold(t.model, codexrpc.ReserveModel) && !m.Process.LunaReserve() {
		refusal = apierror.ModelNotFound(t.model)
	}
	if refusal == nil && t.request.Refuses != nil {
		id, _ := m.Meter(t.model)
		refusal = t.request.Refuses(id)
	}
	return refusal, refusal != nil || t.request.Plan.Picture && login.PicturesSpent()
}

// startWithOtherLogin starts the turn with another login that does not rest after a failure. If there is
// such a login, it returns true and the error of the start, or nil. Otherwise it returns false and the
// failure of the turn or, if another login is likely to work sooner, the failure of that login.
func startWithOtherLogin(ctx context.Context, t *Turn, f *turnFailure) (started bool, err error) {
	if !t.current.hasOtherLogins {
		return false, f.err
	}
	lease, err := t.opener.Upstream.Lease()
	if err != nil {
		return false, f.err // f.err has more details than err
	}
	defer lease.Release()
	next, opened, other := t.openWithOtherLogin(ctx, lease, t.current.member)
	switch {
	case !opened && other != nil:
		return false, loginstate.MoreHopeful(f.err, other)
	case !opened:
		return false, f.err
	}
	t.closeThread(t.current.onClose)
	return true, t.start(ctx, next)
}

// openWithOtherLogin opens a thread on a process with another login than member's that does not
// rest after a failure. If it opens none, other is the error of a process that will start again
// soon, or of a login that rests, or else nil.
func (t *Turn) openWithOtherLogin(ctx context.Context, lease Lease, member Member) (next attempt, opened bool, other error) {
	avoid := []*appserver.Process{member.Process}
	for range lease.Len() {
		picked, done := lease.Pick(t.model, avoid...)
		if picked.Rests != nil || slices.Contains(avoid, picked.Process) || picked.Process.Status().Final {
			done() // Pick knows no better member, so no other is worth a try
			return attempt{}, false, cmp.Or(other, picked.Rests)
		}
		if _, avoids := t.avoidsLogin(&picked); avoids || picked.Login == member.Login {
			done()
			avoid = append(avoid, picked.Process)
			continue
		}
		next, err := t.openThread(ctx, lease, picked, false)
		if err == nil {
			return t.withLease(next, lease, done), true, nil
		}
		done()
		if !isGone(err) && !noPicturesLeft(err) || ctx.Err() != nil {
			return attempt{}, false, nil // another process would not help
		}
		if notReady, ok := errors.AsType[*appserver.NotReadyError](err); ok && !notReady.Final {
			other = err
		}
		avoid = append(avoid, picked.Process)
	}
	return attempt{}, false, other
}

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
