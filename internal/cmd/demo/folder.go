package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// folder is the demo's own directory, for all that Caddy and Codex would otherwise write
// to those of the user.
type folder string

// newFolder returns an empty folder below dir. What a demo that was killed has left in it
// is removed: only one demo at a time has its port.
func newFolder(dir string, port int) (folder, error) {
	root, err := filepath.Abs(filepath.Join(dir, fmt.Sprintf("demo-%d", port)))
	if err != nil {
		return "", err
	}
	f := folder(root)
	f.remove()
	if err := os.MkdirAll(f.path("data"), 0o700); err != nil {
		return "", err
	}
	// Caddy keeps its instance's id and its locks there.
	for _, name := range []string{"XDG_DATA_HOME", "XDG_CONFIG_HOME"} {
		if err := os.Setenv(name, f.path("data")); err != nil {
			return "", err
		}
	}
	return f, nil
}

// path returns the path of something in the folder.
func (f folder) path(name string) string { return filepath.Join(string(f), name) }

// remove removes the folder. What cannot be removed is left for the next demo.
func (f folder) remove() { _ = os.RemoveAll(string(f)) }
