package main

import (
	"context"
	"os/exec"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// model is what answers.
type model struct {
	home  string // CODEX_HOME; empty: the user's own
	note  string // what it is, for a person
	close func()
}

// chooseModel chooses the model that answers: the user's own with a login, else the
// scripted model, for which a CODEX_HOME is written.
func chooseModel(ctx context.Context, codex, home string) (model, error) {
	if loggedIn(ctx, codex) {
		return model{note: "your own Codex login answers", close: func() {}}, nil
	}
	// The delay lets a person see that the answer is streamed.
	server, err := scriptedmodel.Listen(scriptedmodel.Options{Delay: 15 * time.Millisecond})
	if err != nil {
		return model{}, err
	}
	if err := codexhome.Write(home, server.URL, codexhome.Options{}); err != nil {
		server.Close()
		return model{}, err
	}
	return model{
		home:  home,
		note:  "there is no Codex login: the built-in demo model answers (`codex login` is for a real one)",
		close: server.Close,
	}, nil
}

// loginTimeout bounds codex login status.
const loginTimeout = 20 * time.Second

// loggedIn reports whether codex is logged in. It asks codex, which knows where a login can
// be stored.
func loggedIn(ctx context.Context, codex string) bool {
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	return exec.CommandContext(ctx, codex, "login", "status").Run() == nil
}
