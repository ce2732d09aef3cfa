package appserver

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// State is the state of a [Process], as a word for logs, metrics and /readyz.
type State string

const (
	StateNew      State = ""         // the process was never started
	StateStarting State = "starting" // the app-server is being started, and its handshake has not ended
	StateReady    State = "ready"    // the app-server accepts turns
	// StateUnresponsive: the app-server was ready, but no longer answers. If it answers again, it
	// is ready and keeps its turns; otherwise it is stopped.
	StateUnresponsive State = "unresponsive"
	StateBackoff      State = "backoff"  // a start has failed, and the process waits before the next start
	StateStopping     State = "stopping" // it waits for the exit of an app-server, after its failure or a Stop
	StateStopped      State = "stopped"  // the process was stopped and will not start again
)

// String returns the state's word; for StateNew it is "new".
func (s State) String() string { return cmp.Or(string(s), "new") }

// MarshalText implements [encoding.TextMarshaler].
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Status is the state of a [Process] with its details. The operator sees it as JSON.
type Status struct {
	State     State     `json:"state"`
	Since     time.Time `json:"since"`             // when State began
	Reason    string    `json:"reason,omitempty"`  // why the process is not ready, for its operator; empty when ready or never started
	Remedy    string    `json:"-"`                 // what to do about Reason, in words that clients may see; empty when nothing is known to be wrong
	Final     bool      `json:"-"`                 // the failure stays until somebody does what Remedy says
	SignedOut bool      `json:"-"`                 // the start has failed because nobody is signed in
	RetryAt   time.Time `json:"retry_at,omitzero"` // when the next start is due, in StateBackoff
	PID       int       `json:"pid,omitempty"`     // of the running program; 0: there is none
	Version   string    `json:"version,omitempty"` // of the app-server; empty: not known yet
	// Account is why the account is not known, as the text of AccountFailure, or why a replacement still
	// waits for its account. It may quote Codex, with paths and addresses, which clients must not see. It
	// is empty if the account is known or was not requested yet. See [Process.AwaitAccount].
	Account        string `json:"account,omitempty"`
	AccountFailure error  `json:"-"`                      // a *codexrpc.TurnError, or nil
	AccountKnown   bool   `json:"-"`                      // the back end has told the account of a login with a plan
	Restarts       int    `json:"restarts"`               // starts after the first
	Replacements   int    `json:"replacements"`           // how often a working app-server was replaced on purpose
	Threads        int    `json:"threads"`                // open threads, including those on draining app-servers
	Draining       int    `json:"draining"`               // replaced app-servers that still have turns
	Memory         int64  `json:"memory_bytes,omitempty"` // of the app-server that takes new turns, see Config.MaxMemory; 0: not known
	Strict         bool   `json:"-"`                      // see [Acceptance.Strict]
	// SerialModels are the models that call one tool at a time, see [Acceptance.SerialModels].
	SerialModels []string `json:"serial_models,omitempty"`
}

func (s *Status) notReady() *NotReadyError {
	return &NotReadyError{State: s.State, Reason: s.Reason, Remedy: s.Remedy, Final: s.Final, SignedOut: s.SignedOut, RetryAfter: max(0, time.Until(s.RetryAt))}
}

// publishedStatus is what the supervisor publishes: the status, the instance for new turns, and the
// draining instances, which get no new turns. All methods are safe for concurrent use.
type publishedStatus struct {
	mu       sync.Mutex
	status   Status
	memory   int64     // of the serving instance; 0: not known
	latest   *instance // serves, or served last; nil: none has served yet
	draining []*instance
	changed  chan struct{} // closed and replaced at each change

	operatorHome string    // the CODEX_HOME with the login; empty: not known
	triedLogin   LoginFile // the version of the login with which the last instance was started
	loginFailed  time.Time // when that instance failed to take over; zero: it has not failed
}

// servingLocked returns the serving instance, in StateReady and StateUnresponsive, or nil.
func (s *publishedStatus) servingLocked() *instance {
	if s.status.State == StateReady || s.status.State == StateUnresponsive {
		return s.latest
	}
	return nil
}

func (s *publishedStatus) latestInstance() *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}

// read returns the status, the serving instance or nil, and a channel that is closed at the next change.
func (s *publishedStatus) read() (Status, *instance, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.servingLocked(), s.changed
}

// update calls change with the lock held, and then wakes everybody who waits for a change.
func (s *publishedStatus) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// setStatusLocked replaces the status. It keeps what is still true, such as the number of restarts.
func (s *publishedStatus) setStatusLocked(next Status) {
	next.Since = time.Now()
	if next.State == s.status.State { // the state began earlier, perhaps with another instance
		next.Since = s.status.Since
	}
	next.Restarts, next.Replacements = s.status.Restarts, s.status.Replacements
	if next.State == StateUnresponsive || next.State == StateReady && next.PID == s.status.PID { // for the same program
		next.Account, next.AccountFailure, next.AccountKnown = s.status.Account, s.status.AccountFailure, s.status.AccountKnown
	}
	next.Version = cmp.Or(next.Version, s.status.Version)
	if next.State == StateStarting { // keep what is known of the last failure
		next.Remedy, next.Final, next.SignedOut = s.status.Remedy, s.status.Final, s.status.SignedOut
	}
	if next.State != StateReady && next.State != StateUnresponsive {
		s.memory = 0
	}
	s.status = next
}

func (s *publishedStatus) setTriedLogin(operatorHome string, file LoginFile) {
	s.update(func() { s.operatorHome, s.triedLogin, s.loginFailed = operatorHome, file, time.Time{} })
}

// setLoginFailed records that the instance that was started last does not take over.
func (s *publishedStatus) setLoginFailed() {
	s.update(func() { s.loginFailed = time.Now() })
}

// NotReadyError is the error of a process that is not ready.
type NotReadyError struct {
	State      State
	Reason     string        // Status.Reason; it may quote the system or the app-server
	Remedy     string        // Status.Remedy; it has no quotations, so clients may see it
	Final      bool          // Status.Final
	SignedOut  bool          // Status.SignedOut
	RetryAfter time.Duration // the time until the next start; 0: a start is under way, or none is planned
}

// Error returns the state and the reason.
func (e *NotReadyError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("the codex app-server is not ready (%s)", e.State)
	}
	return fmt.Sprintf("the codex app-server is not ready (%s): %s", e.State, e.Reason)
}

// The reasons why a start can fail, besides the errors of package codexrpc.
var (
	errNotStarted = errors.New("cannot start")
	errEarlyEnd   = errors.New("ended before it answered")
	// errNoArgument means that the command line does not contain [appServerCommand].
	errNoArgument = errors.New("has no argument " + appServerCommand)
	errLoginFiles = errors.New("codex cannot store its login")
	// errConfig means that a config.toml or an .env cannot be used.
	errConfig = errors.New("codex's configuration cannot be used")
	// errNoCatalogue: Codex does not print its models, so which tools it would offer is not known.
	errNoCatalogue = errors.New("codex does not print its catalogue of models")
	// errNoDir means that the private directory or the CODEX_HOME of the app-server cannot be made.
	errNoDir = errors.New("cannot make a directory for codex")
)

// selfExplanatory errors are reported without the exit status and stderr of the program: this client stops
// the program because of such an error, so they would explain nothing.
var selfExplanatory = []error{codexrpc.ErrNotLoggedIn, codexrpc.ErrTooOld, codexrpc.ErrMisconfigured}

// explainStartError adds to err, the error of a handshake or nil, what an operator can do about it.
func (p *Process) explainStartError(in *instance, err error) error {
	switch {
	case err == nil, errors.Is(err, errStopped):
		return err
	case in.home != nil && errors.Is(err, codexrpc.ErrNotLoggedIn):
		return in.home.notLoggedIn()
	case in.home != nil && errors.Is(err, codexrpc.ErrMisconfigured):
		return in.home.misconfigured(err)
	case matchesAny(err, selfExplanatory):
		return err
	case in.home != nil && (errors.Is(err, codexrpc.ErrClosed) || errors.Is(err, errEarlyEnd)):
		// The error names only the program, since its arguments may be secret.
		return fmt.Errorf("`%s` %w: check that it is Codex, and see what it says", p.cfg.Command[0], errEarlyEnd)
	}
	return fmt.Errorf("the codex app-server failed to start: %w", err)
}

// temporaryErrors of the operating system may go away by themselves, so they are not final.
var temporaryErrors = []error{syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC}

func matchesAny(err error, known []error) bool {
	return slices.ContainsFunc(known, func(one error) bool { return errors.Is(err, one) })
}

// remedies lists what to do about each class of errors; remedyFor uses the first entry that
// matches. A final error stays until somebody applies the remedy.
var remedies = []struct {
	err    error
	remedy string
	final  bool
}{
	{errStopped, "", false},
	{syscall.EMFILE, "the server has as many files open as it may; raise its limit of open files", false},
	{codexrpc.ErrNotLoggedIn, "Codex is not logged in; run `codex login` for its user and CODEX_HOME", true},
	{codexrpc.ErrTooOld, "this release of Codex is too old; install a newer one with `npm install -g @openai/codex`", true},
	{codexrpc.ErrMisconfigured, "Codex cannot use its config.toml; mend what the server's log names", true},
	{errLoginFiles, "Codex cannot store its login when it renews it; make its CODEX_HOME writable for the server's user", true},
	{errConfig, "Codex's config.toml or .env cannot be used; mend what the server's log names", true},
	{exec.ErrNotFound, "Codex is not installed here, or not on the server's PATH; run `npm install -g @openai/codex`, or set the command to its path", true},
	{errNotStarted, "it cannot be started; check the command", true},
	{errNoArgument, "the command has no argument app-server; write it as in `codex app-server`", true},
	{errNoCatalogue, "Codex cannot be asked for its models, without which it would offer its own tools; check that the command runs `codex debug models`, and see the server's log", false},
	{errEarlyEnd, "the command ends at once; check that it is `codex app-server`, and see the server's log", true},
	{errNoDir, "there is no place for its files; check the temporary directory", true},
	{codexrpc.ErrTimeout, "it has not answered in time; it is tried again", false},
}

func failedStatus(state State, reason error) Status {
	remedy, final := remedyFor(reason)
	return Status{
		State: state, Reason: reason.Error(), Remedy: remedy, Final: final, SignedOut: errors.Is(reason, codexrpc.ErrNotLoggedIn),
	}
}

// remedyFor returns what to do about an error that keeps a process from being ready. final reports
// whether the error stays until somebody does that. Clients may see the remedy, since it has no
// path, no address and no output of the app-server. They may not see the error.
func remedyFor(err error) (remedy string, final bool) {
	for _, r := range remedies {
		if errors.Is(err, r.err) {
			return r.remedy, r.final && !matchesAny(err, temporaryErrors)
		}
	}
	return "it has failed and is started again; the log and GET /codex/status of the admin API say why", false
}
