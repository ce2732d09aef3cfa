package appserver

import (
	"strings"
	"testing"
)

// TestAccount checks that a process is ready without an account, and what it says of one that
// it does not get.
func TestAccount(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"":                          "",
		"account-null":              "could not be renewed",
		"account:failed":            "does not tell the account: codex says",
		"account:refused":           "the provider refuses the login; run `codex login`",
		"account:failed limits:500": "the account back end answers 500 Internal Server Error",
		"account:failed limits:net": "cannot be reached",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := newTestProcess(t, mode, nil)
			book, logger := newLogBook()
			p.SetLogger(logger)
			p.Start()
			awaitState(t, p, StateReady)
			if want == "" {
				book.await(t, "is ready")
				return
			}
			book.await(t, "turns are tried nevertheless")
			status := p.Status()
			if status.State != StateReady || !strings.Contains(status.Account, want) || status.Refused != (mode == "account:refused") {
				t.Errorf("%+v", status)
			}
		})
	}
}
