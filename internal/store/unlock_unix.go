//go:build unix

package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// unlock releases bbolt's lock of a file. While the file is mapped into memory, closing it does not
// release the lock.
func unlock(file *os.File) error { return unix.Flock(int(file.Fd()), unix.LOCK_UN) }
