//go:build !unix

package appserver

import (
	"os"
	"os/exec"
)

// ownGroup does nothing here: there are no process groups. A closed stdin ends the program.
func ownGroup(*exec.Cmd) {}

// terminateGroup kills the process, since there is no gentler way here.
func terminateGroup(cmd *exec.Cmd) { killGroup(cmd) }

func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = cmd.Process.Kill()
	}
}

// lockPrivate returns no lock: there is no flock here.
func lockPrivate(string) (*os.File, error) { return nil, nil }

// removeAbandoned removes nothing, since this system has no locks. Without a lock, the directory
// of a killed program looks like the directory of a running one.
func removeAbandoned(string) bool { return false }
