package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/scriptedmodel"
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
	url, stop, err := startModel()
	if err == nil {
		err = codexhome.Write(home, url, codexhome.Options{})
	}
	closeModel = func() {
		if stop != nil {
			stop()
		}
		_ = os.RemoveAll(home) // a leftover in the temporary directory at worst
	}
	if err != nil {
		closeModel()
		return "", nil, err
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

// startModel serves the scripted model on a free port of this machine.
func startModel() (url string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	// A pace at which a person sees that the answer streams.
	model := scriptedmodel.New(scriptedmodel.Options{Delay: 15 * time.Millisecond})
	server := &http.Server{Handler: model, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "the demo model has ended:", err)
		}
	}()
	return "http://" + listener.Addr().String() + "/v1", func() {
		model.Close()
		_ = server.Close()
		<-ended
	}, nil
}
