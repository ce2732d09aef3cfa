package appserver

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// The classes of failures of a start, besides those of codexrpc.
var (
	// errNotStarted is matched by the error of a command that could not be forked.
	errNotStarted = errors.New("cannot start")
	// errEarlyEnd is matched by that of a program that ended before it answered.
	errEarlyEnd = errors.New("ended before it answered")
	// errNoArgument is matched by that of a command without [appServerCommand].
	errNoArgument = errors.New("has no argument " + appServerCommand)
	// errLoginFiles is matched by that of a login that Codex could not store again.
	errLoginFiles = errors.New("codex cannot store its login")
	// errConfig is matched by that of a config.toml that cannot be used.
	errConfig = errors.New("codex's configuration cannot be used")
	// errNoDir is matched if there is no private directory or home.
	errNoDir = errors.New("cannot make a directory for codex")
)

// explained are the errors that say everything. The exit status of a program that was
// stopped because of them, and what it wrote to its stderr, would only hide that.
var explained = []error{codexrpc.ErrNotLoggedIn, codexrpc.ErrTooOld, codexrpc.ErrMisconfigured}

// isExplained reports whether an error is one of these.
func isExplained(err error) bool {
	return slices.ContainsFunc(explained, func(known error) bool { return errors.Is(err, known) })
}

// startFailure adds to the error of a handshake what an operator can do.
func (p *Process) startFailure(in *instance, err error) error {
	switch {
	case in.child == nil && isExplained(err):
		return fmt.Errorf("at %s: %w", p.address, err)
	case in.home != nil && errors.Is(err, codexrpc.ErrNotLoggedIn):
		return in.home.notLoggedIn()
	case in.home != nil && errors.Is(err, codexrpc.ErrMisconfigured):
		return in.home.misconfigured(err)
	case isExplained(err):
		return err
	case in.home != nil && !slices.Contains(p.cfg.Command, appServerCommand):
		return fmt.Errorf("`%s` %w, as in `codex %[3]s`: %[4]w", p.cfg.Command[0], errNoArgument, appServerCommand, err)
	case in.home != nil && (errors.Is(err, codexrpc.ErrClosed) || errors.Is(err, errEarlyEnd)):
		// Its arguments may be secret.
		return fmt.Errorf("`%s` %w: check that it is Codex, and see what it says", p.cfg.Command[0], errEarlyEnd)
	}
	return fmt.Errorf("the codex app-server failed to start: %w", err)
}

// isTemporary reports whether an error of the system may go away by itself.
func isTemporary(err error) bool {
	return slices.ContainsFunc([]error{syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC}, func(known error) bool {
		return errors.Is(err, known)
	})
}
