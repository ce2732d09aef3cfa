package codexrpc

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
