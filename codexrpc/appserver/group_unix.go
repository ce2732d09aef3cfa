//go:build unix

package appserver

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the child into a process group of its own, so that all that
// it starts can be ended with it, and so that a Ctrl-C meant for the server
// does not reach it before its streams have ended.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// terminateGroup asks every process of the group to end.
func terminateGroup(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGTERM) }

// killGroup ends every process of the group.
func killGroup(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGKILL) }

// signalGroup ignores the error: a group that is gone is what is wanted.
func signalGroup(cmd *exec.Cmd, sig syscall.Signal) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, sig)
	}
}
