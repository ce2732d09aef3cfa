//go:build !unix

package command

import "io/fs"

// ownedByRoot reports false: there is no root here.
func ownedByRoot(fs.FileInfo) bool { return false }
