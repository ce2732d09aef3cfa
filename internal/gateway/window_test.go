package gateway

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// relaySocket is the environment variable with the socket of an app-server in the test's process; windowOfM has
// the window of its model m. Only a program of its own can have a catalogue, so such an app-server is a relay.
const (
	relaySocket = "TEST_RELAY_SOCKET"
	windowOfM   = "TEST_RELAY_WINDOW"
)

// relay makes this program an app-server, and does not return, if it was started as one.
func relay() {
	path := os.Getenv(relaySocket)
	if path == "" {
		return
	}
	if slices.Contains(os.Args, "debug") { // it is to print its catalogue
		fmt.Printf(`{"models":[{"slug":"m","context_window":%s}]}`, os.Getenv(windowOfM))
		os.Exit(0)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		os.Exit(1)
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.(*net.UnixConn).CloseWrite()
	}()
	_, _ = io.Copy(os.Stdout, conn)
	os.Exit(0)
}

// withWindow returns an upstream whose model m has a window of so many tokens.
func withWindow(t testing.TB, window int, serve func(in io.Reader, out io.Writer)) *fakeUpstream {
	t.Helper()
	dir, err := os.MkdirTemp("", "relay")
	must.OK(t, err)
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	must.OK(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serve(conn, conn)
			_ = conn.Close()
		}
	}()
	program, err := os.Executable()
	must.OK(t, err)
	u := &fakeUpstream{process: appserver.New(appserver.Config{
		Command: []string{program, "app-server"},
		Home:    dir,
		Env:     map[string]string{relaySocket: socket, windowOfM: strconv.Itoa(window), "GORACE": "atexit_sleep_ms=0"},
		Client:  codexrpc.ClientInfo{Name: "test"},
	}, nil)}
	u.process.Start()
	t.Cleanup(func() {
		u.process.Stop()
		_ = listener.Close()
		<-served
		_ = os.RemoveAll(dir)
	})
	if _, err := u.process.Instance(t.Context()); err != nil {
		t.Fatal(err)
	}
	return u
}
