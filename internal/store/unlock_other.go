//go:build !unix

package store

import "os"

// unlock does nothing here: closing the file releases the lock.
func unlock(*os.File) error { return nil }
