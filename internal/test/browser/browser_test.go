package browser

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestInstall: `make deps` installs Chromium if there is none and it can, or says what is missing.
func TestInstall(t *testing.T) {
	for name, c := range map[string]struct {
		programs map[string]string
		env      string
		want     string
	}{
		"there is one":            {map[string]string{"google-chrome": "", "apt-get": "echo apt-get $*", "id": "echo 0"}, "", ""},
		"one is named":            {map[string]string{"apt-get": "echo apt-get $*", "id": "echo 0"}, "CHROMIUM=/x", ""},
		"root on Debian":          {map[string]string{"apt-get": "echo apt-get $*", "id": "echo 0"}, "", "apt-get update -q\napt-get install -q -y --no-install-recommends chromium-headless-shell\n"},
		"root on an older Debian": {map[string]string{"apt-get": "echo apt-get $*\ncase $* in *-headless-shell) exit 1 ;; esac", "id": "echo 0"}, "", "recommends chromium-headless-shell\napt-get install -q -y --no-install-recommends chromium\n"},
		"another user":            {map[string]string{"apt-get": "echo apt-get $*", "id": "echo 1000"}, "", "install it, or name it in CHROMIUM"},
		"another system":          {map[string]string{"id": "echo 0"}, "", "install it, or name it in CHROMIUM"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, script := range c.programs {
				must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
			}
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "../../../scripts/chromium")
			cmd.Env = []string{"PATH=" + dir, c.env}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.want) || (c.want == "") != (len(out) == 0) {
				t.Errorf("%v: %q, want %q", err, out, c.want)
			}
		})
	}
}
