package command

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apikeys"
)

// TestKeyRights checks what is said about a file that the command or the service cannot read or
// write, and that root's new file belongs to the owner of its directory.
func TestKeyRights(t *testing.T) {
	err := withPermissionAdvice(fmt.Errorf("opening: %w", &fs.PathError{Op: "open", Path: "/x", Err: fs.ErrPermission}))
	if !strings.Contains(err.Error(), "sudo -u caddy-codex") {
		t.Error(err)
	}
	if err := withPermissionAdvice(fs.ErrNotExist); err.Error() != fs.ErrNotExist.Error() {
		t.Error(err)
	}
	dir := t.TempDir()
	add := func(name string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if _, err := apikeys.Add(path, "alice", nil); err != nil {
			t.Fatal(err)
		}
		return ownerWarning(path)
	}
	root := os.Geteuid() == 0
	if said := add("first"); strings.Contains(said, "chown caddy-codex") != root {
		t.Errorf("it says %q", said)
	}
	if !root {
		return
	}
	const someone = 12345
	if err := os.Chown(dir, someone, someone); err != nil {
		t.Fatal(err)
	}
	if said := add("second"); said != "" {
		t.Errorf("it says %q of a file of the service's user", said)
	}
}
