package appserver

import (
	"errors"
	"os/exec"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// remedies are what to do about each class of errors. The first match counts.
var remedies = []struct {
	err    error
	remedy string
}{
	{errStopped, ""},
	{codexrpc.ErrNotLoggedIn, "Codex is not logged in; run `codex login` for its user and CODEX_HOME"},
	{codexrpc.ErrTooOld, "this release of Codex is too old; install a newer one with `npm install -g @openai/codex`"},
	{codexrpc.ErrRefused, "it runs elsewhere and refuses the connection; check its address and its token"},
	{codexrpc.ErrUnreachable, "it runs elsewhere and cannot be reached; start it there, and check its address"},
	{exec.ErrNotFound, "Codex is not installed here; run `npm install -g @openai/codex`, or set the command to its path"},
	{errNotStarted, "it cannot be started; check the command and the working directory"},
	{codexrpc.ErrTimeout, "it has not answered in time; it is tried again"},
}

// remedy returns what to do about an error that keeps a process from being ready.
// Unlike the error it is fit for everybody: it has no path, no address and no output
// of the app-server.
func remedy(err error) string {
	for _, r := range remedies {
		if errors.Is(err, r.err) {
			return r.remedy
		}
	}
	return "it has failed and is started again; the log and GET /codex/status of the admin API say why"
}
