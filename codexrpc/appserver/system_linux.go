package appserver

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// endWithParent makes the kernel kill the command when the thread that started the command ends,
// and so when this process ends. Without it, a program that hangs would go on, since it does not
// notice that its stdin was closed. endWithParent is called after ownGroup.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }

// ownMemory returns a process's own memory in bytes: resident or swapped out, without the pages of
// files. It returns false if the memory is not known.
func ownMemory(pid int) (bytes int64, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	return parseOwnMemory(text)
}

// parseOwnMemory adds up the memory in a /proc/PID/status.
func parseOwnMemory(text []byte) (sum int64, ok bool) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch name {
		case "RssAnon", "RssShmem", "VmSwap":
			var kib int64
			if _, err := fmt.Sscanf(value, "%d kB", &kib); err == nil {
				sum, ok = sum+kib<<10, ok || name == "RssAnon"
			}
		}
	}
	return sum, ok
}
