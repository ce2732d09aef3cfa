//go:build !linux

package appserver

import "os/exec"

// endWithParent does nothing here: a child notices a killed parent only when its stdin closes.
func endWithParent(*exec.Cmd) {}

// ownMemory returns false: the memory is not known on this system.
func ownMemory(int) (bytes int64, ok bool) { return 0, false }
