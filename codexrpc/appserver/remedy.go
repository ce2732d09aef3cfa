package appserver

import (
	"errors"
	"os/exec"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// remedies are what to do about each class of errors. The first match counts. A final
// one does not go away until somebody does that.
var remedies = []struct {
	err    error
	remedy string
	final  bool
}{
	{errStopped, "", false},
	{codexrpc.ErrNotLoggedIn, "Codex is not logged in; run `codex login` for its user and CODEX_HOME", true},
	{codexrpc.ErrTooOld, "this release of Codex is too old; install a newer one with `npm install -g @openai/codex`", true},
	{codexrpc.ErrMisconfigured, "Codex cannot use its config.toml; mend what the server's log names", true},
	{errLoginFiles, "Codex cannot store its login when it renews it; make its CODEX_HOME writable for the server's user", true},
	{errConfig, "Codex's config.toml cannot be used; mend what the server's log names", true},
	{codexrpc.ErrRefused, "it runs elsewhere and refuses the connection; check its address and its token", true},
	{codexrpc.ErrUnreachable, "it runs elsewhere and cannot be reached; start it there, and check its address", false},
	{exec.ErrNotFound, "Codex is not installed here, or not on the server's PATH; run `npm install -g @openai/codex`, or set the command to its path", true},
	{errNotStarted, "it cannot be started; check the command and the working directory", true},
	{errNoArgument, "the command has no argument app-server; write it as in `codex app-server`", true},
	{errEarlyEnd, "the command ends at once; check that it is `codex app-server`, and see the server's log", true},
	{errNoDir, "there is no place for its files; check the temporary directory", true},
	{codexrpc.ErrTimeout, "it has not answered in time; it is tried again", false},
}

// remedy returns what to do about an error that keeps a process from being ready, and
// whether it stays until that is done. Unlike the error the remedy is fit for everybody:
// it has no path, no address and no output of the app-server.
func remedy(err error) (remedy string, final bool) {
	for _, r := range remedies {
		if errors.Is(err, r.err) {
			return r.remedy, r.final && !isTemporary(err)
		}
	}
	return "it has failed and is started again; the log and GET /codex/status of the admin API say why", false
}
