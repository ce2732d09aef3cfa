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
		if got := absolute(program); got != want {
			t.Errorf("%s: %s, want %s", program, got, want)
		}
	}
}
