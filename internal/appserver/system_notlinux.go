//go:build !linux

package appserver

import "os/exec"

// killWithParent does nothing here: a child notices a killed parent only when its stdin closes.
func killWithParent(*exec.Cmd) {}

// ownMemory returns false: the memory is not known on this system.
func ownMemory(int) (bytes int64, ok bool) { return 0, false }
