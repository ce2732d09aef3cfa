package appserver

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// killWithParent makes the kernel kill the command when this process ends (in fact when the OS
// thread that started the command ends). Otherwise a program that hangs would keep running, since
// it does not notice that its stdin was closed. ownGroup must be called first.
func killWithParent(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }

// ownMemory returns the memory of a process in bytes, resident and swapped out. Pages of files do
// not count. It returns false if the memory is not known.
func ownMemory(pid int) (bytes int64, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	return parseOwnMemory(text)
}

// parseOwnMemory adds up the fields of a /proc/PID/status that count as own memory.
func parseOwnMemory(text []byte) (sum int64, ok bool) {
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
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
