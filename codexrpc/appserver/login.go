package appserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// LoginCommand returns the command `codex login` with arguments, for the login that the
// app-server uses. It has the environment of this process. It fails for an app-server
// that runs elsewhere, and for a command that does not run codex by its own name for the
// app-server.
func (cfg *Config) LoginCommand(ctx context.Context, args ...string) (*exec.Cmd, error) {
	if cfg.Connect != "" {
		return nil, fmt.Errorf("the app-server runs elsewhere; run `codex login` there")
	}
	args, err := cfg.argsOf(append([]string{"login"}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("%w; run `codex login` for it by hand", err)
	}
	home, err := cfg.OperatorHome()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, cfg.Command[0], args...)
	cmd.Env = os.Environ()
	for name, value := range cfg.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if home != "" {
		cmd.Env = append(cmd.Env, homeVariable+"="+home)
	}
	killedAsGroup(cmd)
	return cmd, nil
}

// LoginFile identifies a version of the file that has a login. The zero value stands for
// no such file, as an app-server that runs elsewhere has.
type LoginFile struct {
	modified int64 // Unix nanoseconds
	size     int64
}

// loginFileOf returns the version of the login in a CODEX_HOME.
func loginFileOf(home string) LoginFile {
	info, err := os.Stat(filepath.Join(home, loginFiles[0]))
	if home == "" || err != nil {
		return LoginFile{}
	}
	return LoginFile{modified: info.ModTime().UnixNano(), size: info.Size()}
}

// checkLoginFiles refuses a login in a CODEX_HOME that Codex could not store again after it
// has renewed it: renewing spends the old tokens, so that the login would be lost. A login
// without tokens to renew, such as an API key, may be read-only.
func checkLoginFiles(home string) error {
	if login, err := readLogin(home); err != nil || login.Refresh == "" {
		return nil // Codex reports what is wrong with it
	}
	// Codex makes the lock, too, if there is none. The files are not opened for writing alone,
	// since that would wait for the reader of a pipe.
	for i, flags := range []int{os.O_RDWR, os.O_RDWR | os.O_CREATE} {
		file, err := os.OpenFile(filepath.Join(home, loginFiles[i]), flags, 0o600)
		if err != nil {
			return fmt.Errorf("%w: make CODEX_HOME=%s and the files in it writable for the user of this server: %w", errLoginFiles, home, err)
		}
		_ = file.Close() // nothing was written
	}
	return nil
}

// LoginFiles are versions of the file that has the login of a process. Codex reads it
// when it starts, and later only to renew the same account's tokens.
type LoginFiles struct {
	Now     LoginFile // in the file system
	Tried   LoginFile // when an app-server was started last
	Serving LoginFile // when the one was started that takes turns
	Ready   bool      // one takes turns
}

// LoginFiles returns the versions of the file that has the login.
func (p *Process) LoginFiles() LoginFiles {
	p.mu.Lock()
	files, operator := p.login, p.operator
	files.Ready = p.conn != nil
	p.mu.Unlock()
	files.Now = loginFileOf(operator)
	return files
}

// noteLogin records the login with which an app-server is about to be started.
func (p *Process) noteLogin() (tried LoginFile) {
	operator, err := p.cfg.OperatorHome()
	if err == nil { // else the start will fail for it
		tried = loginFileOf(operator)
		p.update(func() { p.operator, p.login.Tried = operator, tried })
	}
	return tried
}
