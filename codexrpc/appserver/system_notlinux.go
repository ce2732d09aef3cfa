//go:build !linux

package appserver

import "os/exec"

// endWithParent does nothing: only the end of its input ends a program whose parent was
// killed.
func endWithParent(*exec.Cmd) {}

// ownMemory is not known.
func ownMemory(int) (bytes int64, ok bool) { return 0, false }
