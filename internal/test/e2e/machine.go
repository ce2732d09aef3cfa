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

// temporary sets the directory for temporary files, in memory if there is room, and returns what
// removes it: Codex's homes have hundreds of files, whose way to a disk takes a tenth of the time.
func temporary() (remove func(), err error) {
	parent := ""
	var free unix.Statfs_t
	if unix.Statfs(memoryFiles, &free) == nil && free.Bavail*uint64(free.Bsize) > memoryRoom && runsPrograms(memoryFiles) {
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

// nameNone puts a lsb_release on the PATH that fails, a program in dir. Codex asks it twice a start
// for the system's name; where it is a script, that runs fifteen programs: a fifth of the start.
func nameNone(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "lsb_release"), []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		return err
	}
	return os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// trustNone lets Codex trust no authorities that the environment names: it would read them for each
// connection. That of the back end is in the login.
func trustNone() {
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		_ = os.Unsetenv(name)
	}
}
