package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestPrefixedModels: names with the prefix that Claude Code gets, for keys that allow some models only. Aliases
// of the operator with such names come first, but for one of all names.
func TestPrefixedModels(t *testing.T) {
	u := talkative(t, 1)
	key := &quota.Key{ID: "k", Models: []string{"gpt-x", "fast", "anthropic/own"}}
	own := []prompt.Alias{{ID: "fast", Model: "gpt-y"}, {ID: "anthropic/own", Model: "gpt-z"}}
	for _, c := range []struct {
		aliases []prompt.Alias
		name    string
		model   string // of Codex; empty: the key does not allow the name
	}{
		{own, "gpt-x", "gpt-x"}, {own, "anthropic/gpt-x", "gpt-x"}, {own, "anthropic/fast", "gpt-y"}, {own, "anthropic/own", "gpt-z"},
		{own, "anthropic/gpt-y", ""}, {own, "own", ""}, {own, "anthropic/", ""}, {own, "anthropic/anthropic/gpt-x", ""},
		{[]prompt.Alias{{ID: "anthropic*", Model: "gpt-y"}}, "anthropic/gpt-x", ""},
		{[]prompt.Alias{{ID: "*", Model: "gpt-y"}, {ID: "fast", Model: "gpt-z"}}, "anthropic/fast", "gpt-z"},
	} {
		g := newGateway(u, Options{
			MaxConcurrent: 1, Aliases: c.aliases,
			Key: func(*http.Request) (*quota.Key, *apierror.Error) { return key, nil }, Limits: quota.NewLimits(quota.NewLedger(time.Now), 0, true),
		})
		if codexModel, _, _ := g.resolveModel(c.name); g.allows(key, c.name) != (c.model != "") || c.model != "" && codexModel != c.model {
			t.Errorf("%s is %s, allowed: %t", c.name, codexModel, g.allows(key, c.name))
		}
	}
}

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
