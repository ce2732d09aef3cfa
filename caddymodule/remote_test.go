package caddymodule

import (
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
)

// TestAddresses: a configuration with an address that cannot be dialled is refused, also if the
// address comes from a placeholder.
func TestAddresses(t *testing.T) {
	t.Setenv("CADDYMODULE_HOST", "codex.example")
	for address, want := range map[string]string{ // what is wrong with it
		"wss://codex.example:8443/a":     "",
		"unix//run/codex.sock":           "",
		"wss://{env.CADDYMODULE_HOST}":   "",
		"wss://codex.example:8443/a?b=c": "without a query",
		"wss://{env.CADDYMODULE_HOST}?a": "without a query",
		"unix/codex.sock":                "with its whole path",
		"ws://u:secret@codex.example":    "no user or password",
	} {
		err := (&AppServer{Connect: address}).complete()
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", address, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: %v; want %q", address, err, want)
		}
	}
}

func TestResolveRemote(t *testing.T) {
	t.Setenv("CADDYMODULE_HOST", "codex.example")
	t.Setenv("CADDYMODULE_TOKEN", " s3cret\n")
	server := AppServer{Connect: "wss://{env.CADDYMODULE_HOST}/ws", Token: "{env.CADDYMODULE_TOKEN}", StartTimeout: 3}
	if err := server.complete(); err != nil {
		t.Fatal(err)
	}
	got := resolved(t, &server)
	if got.Connect != "wss://codex.example/ws" || got.Token != "s3cret" || got.StartTimeout != 3 || got.Client.Name == "" {
		t.Errorf("%+v", got)
	}
	if len(got.Command) != 0 || len(got.Env) != 0 || got.MaxMemory != 0 {
		t.Errorf("options of a process of its own: %+v", got)
	}
}

// Caddy warns of a token that can be read on the network.
func TestExposedTokens(t *testing.T) {
	for address, want := range map[string]bool{
		"ws://codex.example":   true,
		"ws://10.0.0.1:4500":   true,
		"ws://127.0.0.1:4500":  false,
		"ws://[::1]:4500":      false,
		"ws://localhost:4500":  false,
		"wss://codex.example":  false,
		"unix//run/codex.sock": false,
	} {
		if got := sendsTokenUnencrypted(appserver.Config{Connect: address, Token: "x"}); got != want {
			t.Errorf("%s: %t", address, got)
		}
		if sendsTokenUnencrypted(appserver.Config{Connect: address}) {
			t.Errorf("%s without a token", address)
		}
	}
}
