package e2e

import (
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// memoryFiles is where Linux has a file system in memory, memoryRoom how much of it the tests of a
// package may need, in bytes.
const (
	memoryFiles = "/dev/shm"
	memoryRoom  = 1 << 30
)

// temporary sets the directory for temporary files, and returns a function that removes it. It is in
// memory if there is room: each home of Codex has some hundred files, and Codex waits until its
// databases are on the disk, which takes a tenth of the tests' time.
func temporary() (remove func(), err error) {
	parent := ""
	var free unix.Statfs_t
	if unix.Statfs(memoryFiles, &free) == nil && uint64(free.Bavail)*uint64(free.Bsize) > memoryRoom && runsPrograms(memoryFiles) {
		parent = memoryFiles
	}
	dir, err := os.MkdirTemp(parent, "e2e-")
	if err != nil {
		return nil, err
	}
	return func() { _ = os.RemoveAll(dir) }, os.Setenv("TMPDIR", dir)
}

// runsPrograms reports whether programs in a directory can be run.
func runsPrograms(dir string) bool {
	dir, err := os.MkdirTemp(dir, "e2e-")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "true")
	return os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700) == nil && exec.Command(program).Run() == nil
}

// trustNone lets Codex trust no authorities that the environment names: it would read them for each
// connection. That of the back end is in the login.
func trustNone() {
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		_ = os.Unsetenv(name)
	}
}
