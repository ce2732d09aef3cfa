package caddymodule

import (
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
)

// TestUsageFileMode: if Caddy's storage is a directory, only Caddy's user can read the usage,
// whatever the umask, and also if the file was readable for others before.
func TestUsageFileMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	id, err := caddy.InstanceID()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(caddy.DefaultStorage.Path, "codex", "usage", id.String()+".json")
	for _, loosened := range []bool{false, true} {
		if loosened {
			if err := os.Chmod(file, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c := provision(t, fakeHandler(t, t.Name()))
		c.start(t)
		observer{turns: zap.NewNop()}.TurnsEnded(t.Context(), []gateway.Record{{User: "somebody", Status: http.StatusOK}})
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

// TestInstanceID: what a full disk has left of the file is replaced, and nothing else.
func TestInstanceID(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	path := filepath.Join(caddy.AppDataDir(), "instance.uuid")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for content, replaced := range map[string]bool{"": true, "not an id": false} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		c := provision(t, fakeHandler(t, t.Name()))
		c.start(t)
		c.cleanup()
		left, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := uuid.ParseBytes(left); (err == nil) != replaced || !replaced && string(left) != content {
			t.Errorf("%q became %q", content, left)
		}
	}
}
