//go:build unix

package command

import (
	"io/fs"
	"syscall"
)

// ownedByRoot reports whether a file belongs to root.
func ownedByRoot(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0
}
