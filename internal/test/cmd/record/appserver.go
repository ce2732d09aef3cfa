package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

var clientInfo = codexrpc.ClientInfo{Name: "caddy-codex", Version: "0.0.0"}

// appServer is a running app-server whose messages are written to a tape.
type appServer struct {
	conn *codexrpc.Conn
	tape *tape
	// names maps this machine's paths and addresses to what stands for them in recordings.
	names map[string]string
	cwd   string
	stop  func() error
}

// exitWait bounds the exit of codex after the end of its input.
const exitWait = 10 * time.Second

// refusedLogin is the set whose login is refused.
const refusedLogin = "login-refused"

// logins prepare the back end of a plan and its login, by sets of recordings.
var logins = map[string]func(*planbackend.Backend, *planbackend.Login){
	"login":         func(*planbackend.Backend, *planbackend.Login) {},
	"login-refused": func(_ *planbackend.Backend, l *planbackend.Login) { l.Revoke() },
	"login-accounts-down": func(b *planbackend.Backend, _ *planbackend.Login) {
		b.Fail(planbackend.Accounts, planbackend.Status(500))
	},
}

func startCodex(ctx context.Context, program string, model *scriptedmodel.Local, opts setting) (*appServer, error) {
	if opts.set == "" {
		return startWith(ctx, program, func(home string) (map[string]string, error) {
			names := map[string]string{model.URL: "http://127.0.0.1:1/v1"}
			return names, codexhome.Write(home, model.URL, codexhome.Options{More: opts.config})
		})
	}
	plan, err := planbackend.Listen(planbackend.Options{Codex: program, Model: model.Server})
	if err != nil {
		return nil, err
	}
	s, err := startWith(ctx, program, func(home string) (map[string]string, error) {
		login := plan.AddLogin(planbackend.LoginOptions{})
		logins[opts.set](plan, login)
		return nil, login.Write(home)
	})
	if err != nil {
		plan.Close()
		return nil, err
	}
	stop := s.stop
	s.stop = func() error {
		defer plan.Close()
		return stop()
	}
	return s, nil
}

// startWith starts the program with a home that write has filled. For names see [appServer].
func startWith(ctx context.Context, program string, write func(home string) (map[string]string, error)) (*appServer, error) {
	home, err := os.MkdirTemp("", "codex-home-")
	if err != nil {
		return nil, err
	}
	work := filepath.Join(home, "workspace")
	names, err := write(home)
	if err = errors.Join(err, os.Mkdir(work, 0o700)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(home))
	}
	ctx, kill := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, program, "app-server")
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "CODEX_HOME="+home)
	cmd.WaitDelay = exitWait
	stdin, errIn := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		kill()
		return nil, errors.Join(fmt.Errorf("starting %s: %w", program, err), os.RemoveAll(home))
	}
	s := newAppServer(codexrpc.NewStdio(stdout, stdin))
	s.cwd = work
	s.names = map[string]string{work: "/workspace", home: "/home/user/.codex"}
	maps.Copy(s.names, names)
	s.stop = func() error {
		defer kill()
		closed := s.conn.Close() // ends its input
		timer := time.AfterFunc(exitWait, kill)
		defer timer.Stop()
		return errors.Join(closed, cmd.Wait(), os.RemoveAll(home))
	}
	return s, nil
}

// newAppServer returns an app-server on a transport, and records its messages.
func newAppServer(t codexrpc.Transport) *appServer {
	tape := &tape{transport: t}
	return &appServer{conn: codexrpc.NewConn(tape, codexrpc.Options{}), tape: tape}
}
