//go:build !unix

package appserver

import "os/exec"

// ownGroup does nothing: there are no process groups here. Closing stdin ends the
// program.
func ownGroup(*exec.Cmd) {}

// terminateGroup kills the process, since there is no gentler way here.
func terminateGroup(cmd *exec.Cmd) { killGroup(cmd) }

// killGroup kills the process.
func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = cmd.Process.Kill()
	}
}
