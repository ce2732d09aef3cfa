package appserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	// appServerCommand is the subcommand in Config.Command, before the app-server's arguments.
	appServerCommand = "app-server"
	// maxCatalogue bounds a list of models, in bytes. The catalogue that Codex prints usually has
	// three quarters of a megabyte.
	maxCatalogue = 16 << 20
	// maxComplaint bounds how much of the stderr of a catalogueRun is kept for its error, in bytes.
	maxComplaint = 1 << 10
)

// catalogueArgs make Codex print its models: the operator's (model_catalog_json) or its own. The
// last argument hides the login from this run. With it, the run would ask the provider first, and
// could renew an expired login at the same time as an app-server, with the same refresh token;
// killed meanwhile, it could lose the new token.
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
// arguments before app-server in Config.Command, and then the command. The error names only the
// program, since its arguments may be secret.
func (cfg *Config) argsFor(command ...string) ([]string, error) {
	i := slices.Index(cfg.Command, appServerCommand)
	if i < 1 {
		return nil, fmt.Errorf("`%s` %w, as in `codex %s`", append(cfg.Command, "")[0], errNoArgument, appServerCommand)
	}
	return slices.Concat(cfg.Command[1:i], command), nil
}

// startCatalogue starts the program in a directory and with an environment, to print its catalogue.
// The program is killed at the timeout or when ctx ends.
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
	if stderr = truncate(strings.Join(strings.Fields(stderr), " "), keptLineBytes); stderr != "" {
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
