package appserver

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/logbook"
)

// A process is ready without an account, and says why it does not get one.
func TestAccount(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"":                          "",
		"account-null":              "the provider refuses the login; run `caddy codex login`",
		"account:failed":            "does not tell the account: codex says",
		"account:refused":           "the provider refuses the login; run `caddy codex login`",
		"account:failed limits:500": "the account back end answers 500 Internal Server Error",
		"account:failed limits:net": "cannot be reached",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := newTestProcess(t, mode, nil)
			book := new(logbook.Book)
			p.SetLogger(book.Logger())
			p.Start()
			awaitState(t, p, StateReady)
			if want == "" {
				book.Await(t, "is ready")
				return
			}
			book.Await(t, "turns are tried nevertheless")
			status := p.Status()
			if status.State != StateReady || !strings.Contains(status.Account, want) || status.AccountFailure != nil || status.AccountKnown {
				t.Errorf("%+v", status)
			}
		})
	}
}

// TestAccountLog checks that the log says whether turns are tried while the account is not known.
// They are refused only while the back end of a login with a plan is silent.
func TestAccountLog(t *testing.T) {
	t.Parallel()
	const refused, tried, known = "turns are refused until it is", "turns are tried nevertheless", "login is known"
	for mode, want := range map[string][]string{
		"mute:account/read plan": {refused, tried, refused, known},
		"mute:account/read":      {tried, known},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := newTestProcess(t, mode, nil)
			book := new(logbook.Book)
			p.SetLogger(book.Logger())
			p.Start()
			awaitState(t, p, StateReady)
			p.runInSupervisor(func(s *supervisor) {
				for _, err := range []*codexrpc.TurnError{errSilent, accountFailure(500, "500"), accountFailure(503, "503"), errSilent, nil} {
					s.publishAccount(s.serving, err)
				}
			})
			book.Await(t, known)
			if got := regexp.MustCompile(refused+"|"+tried+"|"+known).FindAllString(book.String(), -1); !slices.Equal(got, want) {
				t.Errorf("the log says %q", got)
			}
		})
	}
}
