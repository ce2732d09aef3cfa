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
	} {
		if got, err := parseEndpoint(address); err != nil || got != want {
			t.Errorf("%s: %+v, %v", address, got, err)
		}
	}
}

func TestAddressesThatAreNone(t *testing.T) {
	long := strings.Repeat("x", maxSocketPath)
	for address, want := range map[string]string{
		"":                              "must be ws://",
		"codex.internal:4500":           "must be ws://",
		"127.0.0.1:4500":                "must be ws://",
		"http://codex.internal":         "must be ws://",
		"unix:///run/codex.sock":        "must be ws://",
		"unix:codex.sock":               "must be ws://",
		"unix/":                         "whole path",
		"unix//":                        "whole path",
		"unix/codex.sock":               "whole path",
		"unix//" + long:                 "at most",
		"unix//run/\x00":                "at most",
		"ws:codex.example":              "with a host",
		"ws://":                         "with a host",
		"ws://:4500":                    "with a host",
		"ws://a b":                      "must be ws://",
		"ws://user:secret@codex:4500":   "no user or password",
		"wss://codex?token=secret":      "without a query",
		"wss://codex/path?":             "without a query",
		"wss://codex#secret":            "or a fragment",
		"ws://codex:0":                  "has a port",
		"ws://codex:65536":              "has a port",
		"ws://codex:secret-of-somebody": "must be ws://",
		"http://user:secret@codex":      "must be ws://",
	} {
		err := CheckAddress(address)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v, want %q and no secret", address, err, want)
		}
	}
}
