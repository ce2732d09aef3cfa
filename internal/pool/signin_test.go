package pool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/test/logbook"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestOneSignIn checks that there is one sign-in at a time, how each of its ends is told, and
// that the end of the login ends it for good.
func TestOneSignIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s signIn
		expires := time.Now().Add(time.Minute)
		var fail error // what a sign-in ends with, once somebody has entered the code
		entered := make(chan struct{})
		run := func(ctx context.Context, show func(codexrpc.DeviceCode, time.Time)) error {
			show(codexrpc.DeviceCode{URL: "https://x.example", Code: "AB"}, expires)
			select {
			case <-entered:
				return fail
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		for _, c := range []struct {
			end    func()
			fail   error
			state  status.SignInState
			reason string
		}{
			{func() { entered <- struct{}{} }, nil, status.SignInDone, ""},
			{func() { entered <- struct{}{} }, errors.New("refused"), status.SignInFailed, "refused"},
			{func() { s.stop(errCancelled, false) }, nil, status.SignInFailed, errCancelled.Error()},
			{func() { s.stop(errDropped, true) }, nil, status.SignInFailed, errDropped.Error()},
		} {
			fail = c.fail
			must.OK(t, s.begin(run))
			s.awaitCode(t.Context())
			if now := s.status(); now.State != status.SignInWaiting || now.Code != "AB" || !now.ExpiresAt.Equal(expires) {
				t.Errorf("it waits as %+v", now)
			}
			if err := s.begin(run); !errors.Is(err, ErrSigningIn) {
				t.Errorf("a second one: %v", err)
			}
			c.end()
			synctest.Wait()
			if now := *s.status(); now != (status.SignIn{State: c.state, Reason: c.reason}) {
				t.Errorf("it ended as %+v", now)
			}
		}
		if err := s.begin(run); err == nil || errors.Is(err, ErrSigningIn) {
			t.Errorf("after the end of the login: %v", err)
		}
	})
}

// TestNoCode checks that who waits for a code is told that there is none, and may leave before.
func TestNoCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s signIn
		if s.stop(errCancelled, false); s.status() != nil {
			t.Errorf("there was %+v", s.status())
		}
		err := s.begin(func(context.Context, func(codexrpc.DeviceCode, time.Time)) error {
			time.Sleep(time.Minute)
			return errors.New("no code")
		})
		must.OK(t, err)
		gone, leave := context.WithCancel(t.Context())
		leave()
		s.awaitCode(gone)
		if now := s.status(); now.State != status.SignInStarting {
			t.Errorf("who leaves sees %+v", now)
		}
		s.awaitCode(t.Context())
		if now := s.status(); now.State != status.SignInFailed || now.Reason != "no code" {
			t.Errorf("without a code: %+v", now)
		}
	})
}

// TestDroppedSignIn checks that a reload which changes the app_server of a sign-in says in the
// status of the new one, and in the log, that it was dropped.
func TestDroppedSignIn(t *testing.T) {
	s := newSupervisor(t)
	servers := func(name, home string) []Server {
		all := fakes(t, name, 1)
		all[0].Config.Home = home
		return all
	}
	home := t.TempDir()
	old, _ := newConfiguration(t, s, servers("old", home))
	old.Start()
	p, release := lease(t, sole(t, old))
	if now, err := p.SignIn(t.Context()); err != nil || now.State != status.SignInWaiting {
		t.Fatalf("%+v, %v", now, err)
	}
	release()
	next, _ := newConfiguration(t, s, servers("new", home), servers("elsewhere", t.TempDir()))
	var log logbook.Book
	next.logger = log.Logger()
	next.Start()
	next.Open()
	old.cleanup()
	for _, p := range s.All() {
		now, dropped := p.login.signIn.status(), p.operatorHome() == home
		if dropped && (now == nil || *now != status.SignIn{State: status.SignInFailed, Reason: errDropped.Error()}) || !dropped && now != nil {
			t.Errorf("in the same home: %t, the sign-in is %+v", dropped, now)
		}
	}
	if !strings.Contains(log.String(), "was dropped") {
		t.Errorf("the log has %s", log.String())
	}
}
