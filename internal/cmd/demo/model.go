package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// chooseModel chooses the model that answers. With a login, home is empty, so that Codex
// uses its own. Without one, home is a CODEX_HOME that names the scripted model, which runs
// until closeModel is called.
func chooseModel(ctx context.Context, codex string) (home string, closeModel func(), err error) {
	if loggedIn(ctx, codex) {
		fmt.Println("using your own Codex login")
		return "", func() {}, nil
	}
	fmt.Println("no Codex login was found: the built-in demo model answers; run `codex login` to use a real one")
	home, err = os.MkdirTemp("", "caddy-codex-demo-")
	if err != nil {
		return "", nil, err
	}
	// The delay lets a person see that the answer is streamed.
	model, err := scriptedmodel.Listen(scriptedmodel.Options{Delay: 15 * time.Millisecond})
	if err == nil {
		if err = codexhome.Write(home, model.URL, codexhome.Options{}); err != nil {
			model.Close()
		}
	}
	if err != nil {
		_ = os.RemoveAll(home)
		return "", nil, err
	}
	closeModel = func() {
		model.Close()
		_ = os.RemoveAll(home)
	}
	return home, closeModel, nil
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
