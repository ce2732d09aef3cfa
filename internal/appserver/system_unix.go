//go:build unix

package appserver

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes the command start in a process group of its own. A signal to the group then also
// ends everything that the command has started, and a Ctrl-C for the server does not end the
// command before the server has finished its responses.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

func terminateGroup(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGTERM) }

func killGroup(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGKILL) }

// signalGroup sends a signal to the group. It ignores errors, since the group may have ended.
func signalGroup(cmd *exec.Cmd, sig syscall.Signal) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, sig)
	}
}

// lockPrivate locks a directory for as long as the returned file is open. It fails if another
// process has locked the directory. It locks the directory itself, since systemd-tmpfiles does not
// remove old files from a locked directory. On a file system without locks, lockPrivate returns no
// file, and removeAbandoned removes nothing.
func lockPrivate(path string) (*os.File, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		return dir, nil
	}
	_ = dir.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, err
	}
	return nil, nil
}

// removeAbandoned removes a directory of this user that is not locked. It reports whether it did.
func removeAbandoned(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
		return false
	}
	lock, err := lockPrivate(path)
	if err != nil || lock == nil {
		return false
	}
	defer lock.Close()
	return os.RemoveAll(path) == nil
}
