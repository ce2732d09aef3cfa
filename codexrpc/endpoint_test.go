package codexrpc

import (
	"strings"
	"testing"
)

func TestEndpoints(t *testing.T) {
	for address, want := range map[string]endpoint{
		"ws://127.0.0.1:4500":      {"ws://127.0.0.1:4500", "tcp", "127.0.0.1:4500"},
		"ws://codex.internal":      {"ws://codex.internal", "tcp", "codex.internal:80"},
		"ws://[::1]:4500/":         {"ws://[::1]:4500/", "tcp", "[::1]:4500"},
		"wss://codex.example/a/b":  {"wss://codex.example/a/b", "tcp", "codex.example:443"},
		"wss://codex.example:8443": {"wss://codex.example:8443", "tcp", "codex.example:8443"},
		"unix//run/codex.sock":     {"ws://localhost/", "unix", "/run/codex.sock"},
		"unix///run/codex.sock":    {"ws://localhost/", "unix", "/run/codex.sock"},
		"unix/codex.sock":          {"ws://localhost/", "unix", "codex.sock"},
	} {
		if got, err := parseEndpoint(address); err != nil || got != want {
			t.Errorf("%s: %+v, %v", address, got, err)
		}
	}
}

func TestAddressesThatAreNone(t *testing.T) {
	for address, want := range map[string]string{
		"":                              "none of",
		"codex.internal:4500":           "none of",
		"http://codex.internal":         "none of",
		"unix:///run/codex.sock":        "none of",
		"unix/":                         "no socket",
		"unix//":                        "no socket",
		"ws://":                         "no host",
		"ws://:4500":                    "no host",
		"ws://user:secret@codex:4500":   "credentials",
		"wss://codex?token=secret":      "no query",
		"wss://codex#secret":            "no fragment",
		"ws://codex:secret-of-somebody": "not a URL",
		"http://user:secret@codex":      "none of",
	} {
		err := CheckConnect(address)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v, want %q and no secret", address, err, want)
		}
	}
}
