package caddymodule

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAbsolute(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{
		"codex":          "codex",
		"/opt/bin/codex": "/opt/bin/codex",
		"./codex":        filepath.Join(here, "codex"),
		"bin/codex":      filepath.Join(here, "bin", "codex"),
		"../codex":       filepath.Join(filepath.Dir(here), "codex"),
	} {
		if got := resolved(t, &AppServer{Command: []string{program}}).Command[0]; got != want {
			t.Errorf("%s: %s, want %s", program, got, want)
		}
	}
	// A program that runs in a directory of its own would look for its home there.
	cfg := resolved(t, &AppServer{Home: "home"})
	if cfg.Home != filepath.Join(here, "home") {
		t.Errorf("home %s", cfg.Home)
	}
}
