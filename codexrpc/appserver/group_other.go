//go:build !unix

package appserver

import "os/exec"

// ownGroup does nothing where there are no process groups; closing stdin is
// what ends the program there.
func ownGroup(*exec.Cmd) {}

// terminateGroup ends the started process: there is no gentler way here.
func terminateGroup(cmd *exec.Cmd) { killGroup(cmd) }

// killGroup ends the started process.
func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = cmd.Process.Kill()
	}
}
