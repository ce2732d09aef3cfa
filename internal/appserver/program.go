package appserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Program is a started app-server: a process group, or a part of this process (see [Config].Start).
type Program struct {
	// Stdin is the input of the program; Stdout and Stderr are its output. Writes to Stdin have a
	// timeout only if Stdin has a method SetWriteDeadline.
	Stdin          io.WriteCloser
	Stdout, Stderr io.ReadCloser
	PID            int
	// Wait waits for the exit and returns how the program exited. It is called only once.
	Wait func() string
	// Terminate asks the program to exit. Kill ends the program or, if it has already exited, the
	// rest of its process group. Neither waits for the exit.
	Terminate, Kill func()
}

// startProgram starts the configured program. The error says what an operator can do.
func (cfg *Config) startProgram(dir string, env []string) (*Program, error) {
	if cfg.Start != nil {
		program, err := cfg.Start()
		if err != nil {
			return nil, fmt.Errorf("cannot start the app-server: %w", err)
		}
		return program, nil
	}
	cmd := exec.Command(executable(cfg.Command[0]), cfg.Command[1:]...)
	cmd.Dir, cmd.Env = dir, env
	ownGroup(cmd)
	program, err := fork(cmd)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%w, which is %q; install it with `npm install -g @openai/codex`, or set the command to its path", err, os.Getenv("PATH"))
	case err != nil:
		return nil, fmt.Errorf("%w %q: %w; check the command", errNotStarted, cfg.Command[0], err)
	}
	return program, nil
}

// fork starts a command with pipes that fork makes itself. Pipes made by [exec.Cmd] would be closed
// by its Wait, which could cut off the last lines of the output.
func fork(cmd *exec.Cmd) (*Program, error) {
	var pipes [3][2]*os.File // of stdin, stdout and stderr: the ends for reading and for writing
	for i := range pipes {
		var err error
		if pipes[i][0], pipes[i][1], err = os.Pipe(); err != nil {
			closeAll(pipes[0][:], pipes[1][:])
			return nil, fmt.Errorf("making pipes: %w", err)
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes[0][0], pipes[1][1], pipes[2][1]
	wait, err := startKilledWithParent(cmd)
	if err != nil {
		closeAll(pipes[0][:], pipes[1][:], pipes[2][:])
		return nil, err
	}
	// The child has copies of these ends. If they stayed open here, the output would never end.
	closeAll(pipes[0][:1], pipes[1][1:], pipes[2][1:])
	return &Program{
		Stdin: pipes[0][1], Stdout: pipes[1][0], Stderr: pipes[2][0], PID: cmd.Process.Pid,
		Wait: func() string {
			if err := wait(); cmd.ProcessState == nil {
				return err.Error()
			}
			return cmd.ProcessState.String()
		},
		Terminate: func() { terminateGroup(cmd) },
		Kill:      func() { killGroup(cmd) },
	}, nil
}

// startKilledWithParent starts a command. Where the system allows it (see killWithParent), the command is
// killed when this process ends, even by a crash. The kernel kills the command as soon as the OS thread
// that has started it ends. So this thread waits for the command's exit. wait returns the error of the
// exit; it must be called only once.
func startKilledWithParent(cmd *exec.Cmd) (wait func() error, err error) {
	killWithParent(cmd)
	started, exited := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			exited <- cmd.Wait()
		}
	}()
	return func() error { return <-exited }, <-started
}

func closeAll(files ...[]*os.File) {
	for _, f := range slices.Concat(files...) {
		_ = f.Close()
	}
}

// npmPackage is npm's package of Codex, which contains npmLauncher. Packages beside it contain the
// native programs, one package for each platform.
const (
	npmPackage  = "@openai/codex"
	npmLauncher = "/" + npmPackage + "/bin/codex.js"
)

// nativePrograms maps a system and an architecture to the path of the native program, below a
// directory node_modules. Windows is missing: npm's commands are scripts there, not links.
var nativePrograms = map[string]string{
	"linux/amd64":  npmPackage + "-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
	"linux/arm64":  npmPackage + "-linux-arm64/vendor/aarch64-unknown-linux-musl/bin/codex",
	"darwin/amd64": npmPackage + "-darwin-x64/vendor/x86_64-apple-darwin/bin/codex",
	"darwin/arm64": npmPackage + "-darwin-arm64/vendor/aarch64-apple-darwin/bin/codex",
}

// executable returns the program for the first word of a command: usually the word itself. npm's launcher
// is a script for Node. For it, executable returns the native program that the launcher would start:
// without the launcher, a start takes less time and up to 43 MB less memory.
func executable(name string) string {
	path, err := exec.LookPath(name)
	if err != nil || !filepath.IsAbs(path) {
		return name // it is not found, or its path is relative to the working directory
	}
	if path, err = filepath.EvalSymlinks(path); err != nil || !strings.HasSuffix(path, npmLauncher) {
		return name
	}
	program, ok := nativePrograms[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return name
	}
	// Node looks for packages in the same way.
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if native, err := exec.LookPath(filepath.Join(dir, "node_modules", program)); err == nil {
			return native
		}
		if dir == filepath.Dir(dir) {
			return name
		}
	}
}

// programFile describes the file that the command would start now; nil: that is not known.
func (cfg *Config) programFile() os.FileInfo {
	if len(cfg.Command) == 0 {
		return nil
	}
	path, _ := exec.LookPath(executable(cfg.Command[0])) // "" after an error
	file, _ := os.Stat(path)
	return file
}

// ProgramReplaced reports whether the command would now start another file than the one that serves:
// after an update of npm's package, or of a link to a program. It does not see what a script starts. A file
// that was only touched is the same.
func (p *Process) ProgramReplaced() bool {
	_, in, _ := p.published.read()
	now := p.cfg.programFile()
	return in != nil && in.file != nil && now != nil && !(os.SameFile(in.file, now) && in.file.Size() == now.Size())
}

const (
	// appServerCommand is the subcommand in Config.Command, before the app-server's arguments.
	appServerCommand = "app-server"
	// maxCatalogue bounds a list of models, in bytes. The catalogue that Codex prints usually has
	// three quarters of a megabyte.
	maxCatalogue = 16 << 20
	// maxComplaint bounds how much of the stderr of a catalogueRun is kept for its error, in bytes.
	maxComplaint = 1 << 10
)

// catalogueArgs make Codex print its models: those of the operator's model_catalog_json, or else its own.
// The last argument hides the login from this run. With the login, the run would ask the provider first. It
// could renew an expired login at the same time as an app-server, with the same refresh token; if it was
// killed meanwhile, the new token could be lost.
var catalogueArgs = []string{"debug", "models", "-c", `cli_auth_credentials_store="ephemeral"`}

// catalogueRun is a run in which the program prints its catalogue. The caller must call wait.
type catalogueRun struct {
	cmd            *exec.Cmd
	waitExit       func() error
	ctx            context.Context
	cancel         context.CancelFunc
	output, stderr boundedBuffer
}

// argsFor returns the arguments that make codex run another command in place of the app-server: the
// arguments before app-server in Config.Command, and then the command. A wrapper may add app-server itself
// when it gets no command. The error names only the program, since its arguments may be secret.
func (cfg *Config) argsFor(command ...string) ([]string, error) {
	program := append(cfg.Command, "")[0]
	i := slices.Index(cfg.Command, appServerCommand)
	if i < 0 && !strings.HasPrefix(filepath.Base(program), "codex") {
		i = len(cfg.Command)
	}
	if i < 1 { // there is no such argument, or no program before it
		return nil, fmt.Errorf("`%s` %w, as in `codex %s`", program, errNoArgument, appServerCommand)
	}
	return slices.Concat(cfg.Command[1:i], command), nil
}

// CheckCommand refuses a Command that cannot start an app-server. It does not look up a bare name, and ignores a
// file that it may not see: the check may run as another user, and with another PATH, than the app-server.
func (cfg *Config) CheckCommand() error {
	if _, err := cfg.argsFor(); err != nil {
		return err
	}
	program := cfg.Command[0]
	if filepath.Base(program) == program {
		return nil
	}
	_, err := exec.LookPath(program)
	if _, unseen := os.Stat(program); err != nil && !errors.Is(unseen, fs.ErrPermission) {
		return fmt.Errorf("%w: %w; set the command to the path that `command -v codex` prints", errNotStarted, err)
	}
	return nil
}

// startCatalogue starts the program to print its catalogue. It is killed at the timeout or when ctx ends.
func (cfg *Config) startCatalogue(ctx context.Context, dir string, env []string, timeout time.Duration) (*catalogueRun, error) {
	args, err := cfg.argsFor(catalogueArgs...)
	if err != nil {
		return nil, err
	}
	r := &catalogueRun{output: boundedBuffer{limit: maxCatalogue, failWhenFull: true}, stderr: boundedBuffer{limit: maxComplaint}}
	r.ctx, r.cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it did not end within %s", timeout))
	r.cmd = exec.CommandContext(r.ctx, executable(cfg.Command[0]), args...)
	r.cmd.Dir, r.cmd.Env = dir, env
	r.cmd.Stdout, r.cmd.Stderr = &r.output, &r.stderr
	killGroupOnCancel(r.cmd)
	if r.waitExit, err = startKilledWithParent(r.cmd); err != nil {
		r.cancel()
		return nil, r.explainError(err)
	}
	return r, nil
}

// killGroupOnCancel makes the end of a command's context kill the command's whole process group,
// since the command may be a launcher that has started the program.
func killGroupOnCancel(cmd *exec.Cmd) {
	ownGroup(cmd)
	cmd.Cancel = func() error {
		killGroup(cmd)
		return nil
	}
	cmd.WaitDelay = pipeGrace
}

func (r *catalogueRun) wait() ([]byte, error) {
	defer r.cancel()
	err := r.waitExit()
	killGroup(r.cmd) // children may still run
	switch {
	case r.output.overflowed:
		err = fmt.Errorf("it printed more than %d bytes", maxCatalogue)
	case r.ctx.Err() != nil:
		err = context.Cause(r.ctx)
	}
	if err != nil {
		return nil, r.explainError(err)
	}
	return r.output.content.Bytes(), nil
}

// explainError adds the command and the beginning of its stderr to err. It leaves out the
// operator's arguments, which may be secret, and the backtrace that Codex prints after the error.
func (r *catalogueRun) explainError(err error) error {
	err = fmt.Errorf("running `%s`: %w", strings.Join(append([]string{r.cmd.Args[0]}, catalogueArgs...), " "), err)
	stderr, _, _ := strings.Cut(r.stderr.content.String(), "Stack backtrace:")
	if stderr = wirejson.Truncate(strings.Join(strings.Fields(stderr), " "), keptLineBytes); stderr != "" {
		err = fmt.Errorf("%w; it said: %s", err, stderr)
	}
	return err
}

// boundedBuffer keeps the first bytes that are written to it, up to its limit. If failWhenFull is
// true, a write beyond the limit fails, which ends the program. If it is false, further bytes are
// dropped, so that a program with a long stderr can go on and report its own error.
type boundedBuffer struct {
	content      bytes.Buffer // not embedded: its ReadFrom would bypass the limit
	limit        int
	failWhenFull bool
	overflowed   bool // bytes were dropped
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	n, _ := b.content.Write(p[:min(len(p), b.limit-b.content.Len())])
	if b.overflowed = b.overflowed || n < len(p); b.overflowed && b.failWhenFull {
		return n, io.ErrShortWrite
	}
	return len(p), nil
}
