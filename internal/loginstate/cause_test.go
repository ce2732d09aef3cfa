package loginstate

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestCauseOf checks what failures say about a login, with Codex's own words.
func TestCauseOf(t *testing.T) {
	failed := func(code string, status int, message string) error {
		return &codexrpc.TurnError{Code: code, HTTPStatus: status, Message: message}
	}
	for _, c := range []struct {
		failure error
		want    Cause
	}{
		{failed(codexrpc.CodeUsageLimit, 0, ""), PlanSpent},
		{codexrpc.ErrNotLoggedIn, NotSignedIn},
		{failed(codexrpc.CodeUnauthorized, 0, "Your access token could not be refreshed. Please log out and sign in again."), Refused},
		{failed("httpConnectionFailed", 401, ""), Refused},
		{failed("other", 0, "workspace routing discovery unauthorized (401)"), Refused},
		{failed("other", 0, "selected workspace missing from routing discovery"), WorkspaceGone},
		{failed("responseTooManyFailedAttempts", 403, ""), Forbidden},
		{failed("httpConnectionFailed", 403, "the project does not have access to model m"), ""},
		{failed("httpConnectionFailed", 402, ""), Forbidden},
		{failed("responseTooManyFailedAttempts", 429, ""), RateLimited},
		{failed("httpConnectionFailed", 0, "its "+codexrpc.UntrustedCertificate), TLSRefused},
		{failed("other", 0, "Connection failed: error sending request"), ProviderDown},
		{failed("other", 0, "workspace routing discovery timed out"), ProviderDown},
		{failed("httpConnectionFailed", 503, ""), ProviderDown},
		{failed("internalServerError", 0, ""), ProviderDown},
		{failed("tooManyDenials", 0, ""), ""},
		{failed("badRequest", 400, ""), ""},
		{failed("cyberPolicy", 0, ""), ""},
		{failed("other", 0, "the moon is full"), ""},
		{errors.New("cut"), ""},
		{nil, ""},
	} {
		got := CauseOf(c.failure)
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.failure, got, c.want)
		}
		if got != "" && (got.Reason() == "" || got.Advice() == "" || !slices.Contains(States, got.State())) {
			t.Errorf("the cause %s has no words", got)
		}
	}
}

// TestCauseIsKept checks that a failure that does not say why Codex cannot connect leaves the known
// cause, and that the end of a trouble lets one turn try the login.
func TestCauseIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unreachable := &codexrpc.TurnError{Code: "other", Message: "Connection failed: error sending request"}
		unknown := &codexrpc.TurnError{Code: "other", Message: "workspace routing discovery failed"}
		for _, c := range []struct {
			first *codexrpc.TurnError
			then  *codexrpc.TurnError
			want  Cause
		}{
			{&codexrpc.TurnError{Message: codexrpc.UntrustedCertificate}, unreachable, TLSRefused},
			{&codexrpc.TurnError{Code: "httpConnectionFailed", HTTPStatus: 403}, unknown, Forbidden},
			{&codexrpc.TurnError{Code: "httpConnectionFailed", HTTPStatus: 403}, unreachable, ProviderDown},
			{unknown, unknown, ProviderDown},
		} {
			var l Login
			l.Fail("", c.first, 0)
			l.Fail("", c.then, 0)
			if got := l.Status(); got.Cause != c.want || got.State != Failing || !got.RestsUntil.Equal(time.Now().Add(2*time.Second)) {
				t.Errorf("%v, then %v: %+v", c.first, c.then, got)
			}
			l.Recover(Failing, SignedOut)
			if got := l.Status(); got != (Status{State: Unknown}) {
				t.Errorf("after the end: %+v", got)
			}
		}
	})
}
