package fakecodex

import (
	"fmt"
	"time"
)

// Options say what a server plays and how.
type Options struct {
	// Transcripts are the recordings, from [Load].
	Transcripts *Transcripts
	// Default is the name of the recording for turns that no recording matches.
	// Empty: such turns fail.
	Default string
	// RateLimits is the RateLimitSnapshot, in JSON, that account/rateLimits/read
	// is answered with. Empty: it is refused, as without an account.
	RateLimits string
	// Turn, if not nil, makes each turn, and no recording of one is played.
	Turn func(Asked) []Step
	// Heard, if not nil, gets each message of the client's, one line without
	// its end, valid during the call.
	Heard func(line []byte)
	// Told, if not nil, gets each message to the client, before it is written.
	Told func(line string)
	// Faults are what goes wrong.
	Faults Faults
}

// Faults are ways to misbehave. The zero Faults is none.
type Faults struct {
	// Mute are the methods that are never answered. A turn whose turn/start is
	// not answered does not begin.
	Mute []string
	// DieAt is a method at whose call the server dies.
	DieAt string
	// DieAfter is the number of messages after which the server dies; 0: never.
	DieAfter int
	// ExitCode is the exit code of a server that dies.
	ExitCode int
	// Garbage puts lines that are no messages before each turn.
	Garbage bool
	// HugeLine puts a line of so many bytes before each turn, a notification
	// that nobody knows.
	HugeLine int
	// Unknown begins each turn with a notification and a request that no client
	// knows. The turn goes on once the request is answered.
	Unknown bool
	// Delay is the pause before each message of a turn.
	Delay time.Duration
	// StallAfter is the number of messages after which a turn falls silent,
	// until it is interrupted; 0: never.
	StallAfter int
	// Version replaces the recorded version of Codex, for example "0.120.0".
	Version string
	// LoggedOut makes account/read tell that a login is needed and missing.
	LoggedOut bool
	// Overload is how many calls after initialize are refused as overloaded
	// (-32001).
	Overload int
}

// DeathError is how [Serve] ends when a fault lets it die: the process is to
// exit at once, with Code.
type DeathError struct{ Code int }

// Error tells the exit code.
func (e *DeathError) Error() string {
	return fmt.Sprintf("the app-server died with exit code %d", e.Code)
}
