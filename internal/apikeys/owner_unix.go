//go:build unix

package apikeys

import (
	"os"
	"syscall"
)

// keepOwner gives a file the owner and the mode of the one at path: root may run the command.
func keepOwner(path string, file *os.File) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if old, ok := info.Sys().(*syscall.Stat_t); ok && (int(old.Uid) != os.Geteuid() || int(old.Gid) != os.Getegid()) {
		if err := file.Chown(int(old.Uid), int(old.Gid)); err != nil {
			return err
		}
	}
	return file.Chmod(info.Mode().Perm())
}
