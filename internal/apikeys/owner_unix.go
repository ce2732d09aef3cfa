//go:build unix

package apikeys

import (
	"os"
	"path/filepath"
	"syscall"
)

// adoptOwner gives a file that root makes for path the owner of the directory: the directory
// belongs to the user whose service reads the file.
func adoptOwner(path string, file *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	if dir, ok := info.Sys().(*syscall.Stat_t); ok {
		return file.Chown(int(dir.Uid), int(dir.Gid))
	}
	return nil
}

// keepOwner gives file the owner and the mode of the file at path, since root may run the command.
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
