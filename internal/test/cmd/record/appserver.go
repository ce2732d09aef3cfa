package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
)

// clientInfo identifies the recorder.
var clientInfo = codexrpc.ClientInfo{Name: "caddy-codex", Version: "0.0.0"}

// appServer is a running app-server whose messages are written to a tape.
type appServer struct {
	conn *codexrpc.Conn
	tape *tape
	// names maps paths and addresses of this machine, which a recording must not
	// have, to their replacements.
	names map[string]string
	cwd   string
	stop  func() error
}

// exitWait bounds the exit of codex after the end of its input.
const exitWait = 10 * time.Second

// startCodex starts the real program with a new home. config is added to the top level
// of its config.toml.
func startCodex(ctx context.Context, program, modelURL, config string) (*appServer, error) {
	home, err := os.MkdirTemp("", "codex-home-")
	if err != nil {
		return nil, err
	}
	work := filepath.Join(home, "workspace")
	err = errors.Join(
		os.Mkdir(work, 0o700),
		codexhome.Write(home, modelURL, codexhome.Options{More: config}),
	)
	if err != nil {
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
	s.names = map[string]string{work: "/workspace", home: "/home/user/.codex", modelURL: "http://127.0.0.1:1/v1"}
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
	return &appServer{conn: codexrpc.NewConn(tape, nil), tape: tape}
}
