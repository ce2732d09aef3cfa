package pool

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/status"
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
			{func() { s.stop(false) }, nil, status.SignInFailed, errCancelled.Error()},
			{func() { s.stop(true) }, nil, status.SignInFailed, errCancelled.Error()},
		} {
			fail = c.fail
			if err := s.begin(run); err != nil {
				t.Fatal(err)
			}
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
		if s.stop(false); s.status() != nil {
			t.Errorf("there was %+v", s.status())
		}
		err := s.begin(func(context.Context, func(codexrpc.DeviceCode, time.Time)) error {
			time.Sleep(time.Minute)
			return errors.New("no code")
		})
		if err != nil {
			t.Fatal(err)
		}
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
