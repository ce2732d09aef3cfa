package appserver

import (
	"cmp"
	"fmt"
	"time"
)

// State is the state of a [Process], as a word for logs, metrics and /readyz.
type State string

const (
	// StateNew: the process was never started.
	StateNew State = ""
	// StateStarting: the app-server is started or dialled, up to the end of the
	// handshake.
	StateStarting State = "starting"
	// StateReady: the app-server takes turns.
	StateReady State = "ready"
	// StateUnresponsive: the app-server was ready and does not answer. It becomes
	// ready again, with all of its turns, or is stopped.
	StateUnresponsive State = "unresponsive"
	// StateBackoff: a start has failed, and the next one is due later.
	StateBackoff State = "backoff"
	// StateStopping: the app-server has failed, or Stop was called, and its end is
	// awaited.
	StateStopping State = "stopping"
	// StateStopped: the process has ended for good.
	StateStopped State = "stopped"
)

// String returns the word.
func (s State) String() string { return cmp.Or(string(s), "new") }

// MarshalText implements [encoding.TextMarshaler].
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Status is the state of a process with its details. Its JSON is for the operator.
type Status struct {
	Address   string    `json:"address,omitempty"` // of a remote app-server, without credentials
	State     State     `json:"state"`
	Since     time.Time `json:"since"`             // when State began
	Reason    string    `json:"reason,omitempty"`  // why the process is not ready, for its operator; empty when ready or never started
	Remedy    string    `json:"-"`                 // what to do about Reason, fit for everybody; empty when nothing is known to be wrong
	Final     bool      `json:"-"`                 // Reason stays until somebody acts on Remedy
	SignedOut bool      `json:"-"`                 // it has failed to start since nobody is signed in
	RetryAt   time.Time `json:"retry_at,omitzero"` // when the next start is due, in StateBackoff
	PID       int       `json:"pid,omitempty"`     // of the running program; 0: there is none
	Version   string    `json:"version,omitempty"` // of the app-server; empty: not known yet
	// Account is why the account of the login is not known, in words for everybody; empty: it
	// is known, or was not asked for yet. Turns are tried nevertheless.
	Account  string `json:"account,omitempty"`
	Refused  bool   `json:"-"`        // the provider refuses the login for good, see Account
	Silent   bool   `json:"-"`        // its back end does not answer, and turns are refused, see Account
	Restarts int    `json:"restarts"` // starts after the first
	// Replacements counts the app-servers, or connections to a remote one, that
	// have replaced another without a failure.
	Replacements int   `json:"replacements"`
	Remote       bool  `json:"-"`                      // the app-server runs elsewhere
	Threads      int   `json:"threads"`                // open threads, including those on draining app-servers
	Draining     int   `json:"draining"`               // replaced app-servers that still have turns
	Memory       int64 `json:"memory_bytes,omitempty"` // resident memory of the app-server that takes new turns; 0: not known
	Strict       bool  `json:"-"`                      // see [Acceptance.Strict]
	// SerialModels call one tool at a time, see [Acceptance.SerialModels].
	SerialModels []string `json:"serial_models,omitempty"`
}

// notReady returns the error for callers that need a ready process.
func (s *Status) notReady() *NotReadyError {
	return &NotReadyError{State: s.State, Reason: s.Reason, Remedy: s.Remedy, Final: s.Final, SignedOut: s.SignedOut, RetryAfter: max(0, time.Until(s.RetryAt))}
}

// NotReadyError is the error of a process that is not ready.
type NotReadyError struct {
	State      State
	Reason     string // these four are those of [Status]; Reason may quote the system or the app-server
	Remedy     string // without quotations
	Final      bool
	SignedOut  bool
	RetryAfter time.Duration // until the next start; 0: it is under way
}

// Error returns the state and the reason.
func (e *NotReadyError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("the codex app-server is not ready (%s)", e.State)
	}
	return fmt.Sprintf("the codex app-server is not ready (%s): %s", e.State, e.Reason)
}
