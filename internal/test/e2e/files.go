package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// ReadFile returns the content of a file.
func ReadFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must.OK(t, err)
	return string(text)
}

// WriteFile writes a file and makes its directory.
func WriteFile(t testing.TB, path, content string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o600)
	}
	must.OK(t, err)
}

// LogLine returns the first line of a log with this message, or nil.
func LogLine(t *testing.T, path, message string) map[string]any {
	t.Helper()
	file, err := os.Open(path)
	must.OK(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var line map[string]any
		if json.Unmarshal(lines.Bytes(), &line) == nil && line["msg"] == message {
			return line
		}
	}
	must.OK(t, lines.Err())
	return nil
}

// OwnTemp gives the test its own directory for temporary files, which Caddy removes after its stop.
func OwnTemp(t *testing.T) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	t.Cleanup(func() {
		WaitFor(t, "the private directories to be removed", func() bool { return len(PrivateDirs(t)) == 0 })
	})
}

// PrivateDirs returns the directories of app-servers in the temporary directory of the test.
func PrivateDirs(t testing.TB) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "caddy-codex-run-*"))
	must.OK(t, err)
	return dirs
}
