//go:build unix

package appserver

import (
	"os/exec"
	"syscall"
)

// ownGroup starts the command in a process group of its own, so that everything that
// it starts can be ended with it, and so that a Ctrl-C for the server does not end it
// before its streams have ended.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// terminateGroup asks every process of the group to end.
func terminateGroup(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGTERM) }

// killGroup kills every process of the group.
func killGroup(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGKILL) }

// signalGroup sends a signal to the group and ignores errors: the group may have
// ended.
func signalGroup(cmd *exec.Cmd, sig syscall.Signal) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, sig)
	}
}
