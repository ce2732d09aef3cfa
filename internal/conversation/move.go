package conversation

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// anotherFree reports whether turns can now use another login than the login in the parameter than.
// After a failure, a login rests for a while: no turn uses it.
func (o *Opener) anotherFree(than *loginstate.Login) bool {
	lease, err := o.Upstream.Lease()
	if err != nil {
		return false
	}
	defer lease.Release()
	other, done := lease.Peek()
	defer done()
	_, rests := other.Login.Rests()
	return other.Login != than && !rests
}

// noPicturesLeft reports whether an error means that the login can make no pictures at all, or that
// it has no pictures left at present.
func noPicturesLeft(err error) bool {
	refused, ok := errors.AsType[*turn.PictureError](err)
	return ok && refused.Spent || errors.Is(err, turn.ErrNoPictures)
}

// recordPicture records that the login has no pictures left, if that is the cause of failure.
func (s *Session) recordPicture(failure error) {
	if refused, ok := errors.AsType[*turn.PictureError](failure); ok && refused.Spent {
		s.now.login.SpendPictures(refused.ResetsAt)
	}
}

// Pictured logs each output that is a failed picture. If a picture failed because the login has no
// pictures left, Pictured records that for the login. The turn goes on.
func (s *Session) Pictured(outputs []turn.Output) {
	for i := range outputs {
		if out := &outputs[i]; out.Kind == turn.OutputPicture && out.Err != nil {
			s.recordPicture(out.Err)
			s.opener.Logger.Info("a picture of an answer could not be made", "request", s.request.Live.Request().ID, "error", out.Err)
		}
	}
}

// avoidsPictures reports whether the turn should avoid this login, because the turn may make
// pictures and the login has none left.
func (s *Session) avoidsPictures(login *loginstate.Login) bool {
	return s.request.Plan.Pictures && login.PicturesSpent()
}

// move starts the turn with another login that does not rest. If there is none, it returns false
// and the failure of the turn, or that of another login if that login is likely to work sooner.
func (s *Session) move(ctx context.Context, f *failed) (started bool, err error) {
	if !s.now.others {
		return false, f.err
	}
	lease, err := s.opener.Upstream.Lease()
	if err != nil {
		return false, f.err // f.err has more details
	}
	defer lease.Release()
	next, opened, other := s.openElsewhere(ctx, lease)
	switch {
	case !opened && other != nil:
		return false, loginstate.MoreHopeful(f.err, other)
	case !opened:
		return false, f.err
	}
	s.now.close()
	return true, s.start(ctx, next)
}

// openElsewhere opens a thread on another process whose login does not rest. If it opens no thread,
// other may be the error of a process that will start again soon, or of a login that rests;
// otherwise it is nil.
func (s *Session) openElsewhere(ctx context.Context, lease Lease) (next attempt, opened bool, other error) {
	avoid := []*appserver.Process{s.now.place.Process}
	for range lease.Len() {
		picked, done := lease.Pick(avoid...)
		if picked.Rests != nil || slices.Contains(avoid, picked.Process) || picked.Process.Status().Final {
			done()
			return attempt{}, false, cmp.Or(other, picked.Rests)
		}
		if picked.Login == s.now.login || s.avoidsPictures(picked.Login) { // not another login, or one without pictures
			done()
			avoid = append(avoid, picked.Process)
			continue
		}
		next, err := s.openThread(ctx, lease, picked, false)
		if err == nil {
			return s.withLogin(next, lease, picked.Login, done), true, nil
		}
		done()
		if !isGone(err) && !noPicturesLeft(err) || ctx.Err() != nil {
			return attempt{}, false, nil
		}
		if late, ok := errors.AsType[*appserver.NotReadyError](err); ok && !late.Final {
			other = err
		}
		avoid = append(avoid, picked.Process)
	}
	return attempt{}, false, other
}
