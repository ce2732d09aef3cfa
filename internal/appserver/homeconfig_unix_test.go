//go:build unix

package appserver

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe in the place of a file is refused and not waited for.
func TestPipesInTheHome(t *testing.T) {
	for name, fatal := range map[string]bool{configFile: true, variablesFile: true, installationIDFile: false} {
		operator := t.TempDir()
		if err := syscall.Mkfifo(filepath.Join(operator, name), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := &Config{Home: operator}
		home, err := cfg.newPrivateHome(t.TempDir())
		switch {
		case !fatal && err != nil:
			t.Errorf("%s: %v", name, err)
		case fatal && (err == nil || !strings.Contains(err.Error(), "is not a regular file")):
			t.Errorf("%s: the error is %v", name, err)
		}
		if err := home.remove(); err != nil {
			t.Error(err)
		}
	}
}
