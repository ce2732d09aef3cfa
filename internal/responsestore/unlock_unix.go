//go:build unix

package responsestore

import (
	"os"

	"golang.org/x/sys/unix"
)

// unlock releases bbolt's lock of a file, which outlasts closing the file while it is mapped.
func unlock(file *os.File) error { return unix.Flock(int(file.Fd()), unix.LOCK_UN) }
