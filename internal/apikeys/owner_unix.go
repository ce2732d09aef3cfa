//go:build unix

package apikeys

import (
	"os"
	"path/filepath"
	"syscall"
)

// adoptOwner makes the owner of path's directory the owner of file, if root runs the command. Caddy must
// be able to read the file, and probably runs as this owner.
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

// keepOwner gives file the owner and the mode of the file at path, which file replaces. Otherwise, if root
// runs the command, Caddy might not be able to read the new file.
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

// OnlyRootReads reports whether only root can read the file at path, and root runs this command.
func OnlyRootReads(path string) bool {
	info, err := os.Stat(path)
	if err != nil || os.Geteuid() != 0 || info.Mode().Perm()&0o077 != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0
}
