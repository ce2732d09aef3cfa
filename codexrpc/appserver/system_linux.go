package appserver

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel kill the command when the thread that starts it ends, and
// so with this process: a program that hangs does not read the end of its input. It is
// called after ownGroup.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }
