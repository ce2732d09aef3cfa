package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestSignIns: one sign-in runs at a time, whoever begins it, and its end is said in words.
func TestSignIns(t *testing.T) {
	dir := t.TempDir()
	codex := filepath.Join(dir, "codex")
	script := func(text string) {
		t.Helper()
		must.OK(t, os.WriteFile(codex+".new", []byte("#!/bin/sh\n"+text), 0o755))
		must.OK(t, os.Rename(codex+".new", codex))
	}
	const prompt = `printf '1. Open this link\n   \033[94mhttps://a.example/device\033[0m\n\n2. Enter this one-time code\n   \033[94m%s\033[0m\n'
`
	endAt := func(name string) string {
		return "until [ -e '" + filepath.Join(dir, name) + "' ]; do sleep 0.05; done\n"
	}
	create := func(name string) { must.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600)) }
	says := func(s *signIns, parts ...string) {
		t.Helper()
		answer := s.fromChat()
		for _, part := range parts {
			if !strings.Contains(answer, part) {
				t.Errorf("there is no %q in %s", part, answer)
			}
		}
	}
	end := func(s *signIns) {
		t.Helper()
		select {
		case <-s.last.ended:
		case <-time.After(time.Minute):
			t.Fatal("the sign-in does not end")
		}
	}

	s := newSignIns(t.Context(), codex)
	script("echo 'Error logging in: no route' >&2; exit 1\n")
	says(s, "has failed", "Error logging in: no route (exit status 1)", "network", "*log in*")

	script(strings.Replace(prompt, "%s", "ABCD-EFGHI", 1) + endAt("expired") + "echo 'The code has expired.'; exit 1\n")
	s.fromTerminal()
	says(s, "<https://a.example/device>", "`ABCD-EFGHI`", "for 15 minutes")
	script("exit 3\n")
	says(s, "`ABCD-EFGHI`")
	create("expired")
	end(s)

	script(strings.Replace(prompt, "%s", "JKLM-NOPQR", 1) + endAt("entered"))
	says(s, "without a login", "`The code has expired. (exit status 1)`", "`JKLM-NOPQR`")
	create("entered")
	end(s)
	<-s.done
	says(s, "You are logged in")
}
