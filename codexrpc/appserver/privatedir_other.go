//go:build !unix || aix || solaris

package appserver

import (
	"os"
	"path/filepath"
	"runtime"
)

// removeBeforeUnlock says that a directory is removed while its lock is held.
// Windows does not remove a file that is open.
const removeBeforeUnlock = false

// ownerFile is open for as long as the owner of a private directory lives.
const ownerFile = "owner"

// lockPrivate opens the file by which a directory has an owner.
func lockPrivate(path string) (*os.File, error) {
	return os.OpenFile(filepath.Join(path, ownerFile), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
}

// removeAbandoned removes a directory whose owner is gone, and reports whether
// it did. Windows refuses to remove the file of an owner that lives; elsewhere
// there is no telling, and nothing is removed.
func removeAbandoned(path string) bool {
	return runtime.GOOS == "windows" && os.Remove(filepath.Join(path, ownerFile)) == nil && os.RemoveAll(path) == nil
}
