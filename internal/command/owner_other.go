//go:build !unix

package command

import "io/fs"

// ownedByRoot returns false: these systems have no user root.
func ownedByRoot(fs.FileInfo) bool { return false }
