package caddymodule

import (
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
)

// TestUsageFileMode: only Caddy's user can read the usage,
// whatever the umask, and also if the file was readable for others before.
func TestUsageFileMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	file := filepath.Join(caddy.AppDataDir(), "codex", "usage.json")
	for _, loosened := range []bool{false, true} {
		if loosened {
			if err := os.Chmod(file, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c := provision(t, fakeHandler(t, t.Name()))
		c.start(t)
		observer{turnLogger: zap.NewNop()}.TurnsEnded(t.Context(), []gateway.Record{{User: "somebody", Status: http.StatusOK}})
		c.cleanup() // it stores the usage
		for path, want := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): 0o700} {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s has the mode %o, want %o (loosened: %t)", path, got, want, loosened)
			}
		}
	}
}
