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

// chooseModel decides who answers. With a login home is empty: Codex's own is
// used. Without, it is a CODEX_HOME that leads to the scripted model, which
// runs until closeModel is called.
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
	// A pace at which a person sees that the answer streams.
	model, err := scriptedmodel.Listen(scriptedmodel.Options{Delay: 15 * time.Millisecond})
	if err == nil {
		if err = codexhome.Write(home, model.URL, codexhome.Options{}); err != nil {
			model.Close()
		}
	}
	if err != nil {
		_ = os.RemoveAll(home) // a leftover in the temporary directory at worst
		return "", nil, err
	}
	closeModel = func() {
		model.Close()
		_ = os.RemoveAll(home)
	}
	return home, closeModel, nil
}

// loginTimeout bounds the question to codex.
const loginTimeout = 20 * time.Second

// loggedIn asks codex itself: it knows all the places where a login can be.
func loggedIn(ctx context.Context, codex string) bool {
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	return exec.CommandContext(ctx, codex, "login", "status").Run() == nil
}
