//go:build unix && !aix && !solaris

package appserver

import (
	"errors"
	"os"
	"syscall"
)

// removeBeforeUnlock says that a directory is removed while its lock is held.
const removeBeforeUnlock = true

// lockPrivate locks a directory for as long as the returned file is open. A
// lock on the directory itself also keeps systemd-tmpfiles from ageing what is
// in it. Where the file system has no locks, it returns no file: nobody can
// take the directory for an abandoned one there either.
func lockPrivate(path string) (*os.File, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, errTaken
	case err != nil:
		return nil, err
	}
	err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		_ = dir.Close()
		return nil, errTaken
	case err != nil:
		_ = dir.Close()
		return nil, nil
	case !isStill(dir, path):
		_ = dir.Close()
		return nil, errTaken
	}
	return dir, nil
}

// isStill reports whether path names the open directory: it may have been
// removed before it was locked.
func isStill(dir *os.File, path string) bool {
	opened, errOpened := dir.Stat()
	named, errNamed := os.Lstat(path)
	return errOpened == nil && errNamed == nil && os.SameFile(opened, named)
}

// removeAbandoned removes a directory of this user's that nobody has locked, and
// reports whether it did.
func removeAbandoned(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
		return false
	}
	lock, err := lockPrivate(path)
	if err != nil || lock == nil {
		return false
	}
	defer lock.Close()
	return os.RemoveAll(path) == nil
}
