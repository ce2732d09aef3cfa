package appserver

import (
	"fmt"
	"time"
)

// State is where a [Process] is in its life.
type State uint8

const (
	// StateNew is a process that was never started.
	StateNew State = iota
	// StateStarting is forked, and shaking hands.
	StateStarting
	// StateReady takes turns.
	StateReady
	// StateUnresponsive was ready and has fallen silent. Either it becomes ready
	// again, with all of its turns, or it is given up.
	StateUnresponsive
	// StateBackoff waits for the next start after a failure.
	StateBackoff
	// StateStopping was told to stop and has not ended yet.
	StateStopping
	// StateStopped has ended for good.
	StateStopped
)

// String gives the state's name as logs, metrics and /readyz show it.
func (s State) String() string {
	switch s {
	case StateNew:
		return "new"
	case StateStarting:
		return "starting"
	case StateReady:
		return "ready"
	case StateUnresponsive:
		return "unresponsive"
	case StateBackoff:
		return "backoff"
	case StateStopping:
		return "stopping"
	case StateStopped:
		return "stopped"
	}
	return "unknown"
}

// NotReadyError says that there is no app-server to talk to now, and why.
type NotReadyError struct {
	State State // the process's state
	// Reason is a sentence for an operator: what failed and what to do. It
	// carries what the operating system or the app-server said.
	Reason string
	// Remedy says what to do, without what the system or the app-server said: it
	// is fit for everybody to read. Empty: nothing is known to be wrong.
	Remedy string
	// RetryAfter is when the next start is due; 0 when it is under way.
	RetryAfter time.Duration
}

// Error gives the state and the reason.
func (e *NotReadyError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("the codex app-server is not ready (%s)", e.State)
	}
	return fmt.Sprintf("the codex app-server is not ready (%s): %s", e.State, e.Reason)
}
