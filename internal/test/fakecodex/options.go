package fakecodex

import (
	"errors"
	"time"
)

// Options configure a server.
type Options struct {
	// Transcripts are the recordings, from [Load].
	Transcripts *Transcripts
	// Default is the name of the recording for turns that no recording matches.
	// Without it such turns fail.
	Default string
	// RateLimits is the RateLimitSnapshot in JSON with which account/rateLimits/read is answered.
	// Without it the call is refused, as without an account.
	RateLimits string
	// Turn, if not nil, returns the messages of each turn instead of a recording.
	Turn func(Asked) []Step
	// Heard, if not nil, is called with each message of the client. The line has
	// no line break and is valid during the call.
	Heard func(line []byte)
	// Told, if not nil, is called with each message to the client before it is written.
	Told func(line string)
	// Faults make the server misbehave.
	Faults Faults
}

// Faults are ways to misbehave. The zero value has none.
type Faults struct {
	// Mute lists methods that are never answered. A turn whose turn/start is not
	// answered does not begin.
	Mute []string
	// DieAt is a method whose call ends the server.
	DieAt string
	// DieAfter is the number of messages after which the server ends, if not 0.
	DieAfter int
	// Delay is the pause before each message of a turn.
	Delay time.Duration
	// StallAfter is the number of messages after which a turn sends nothing until
	// it is interrupted, if not 0.
	StallAfter int
	// Linger is how long a turn goes on after it was interrupted, as while Codex decodes images.
	Linger time.Duration
	// Overload is the number of calls after initialize that are refused as overloaded (-32001).
	Overload int
}

// ErrDied is the error of [Serve] when a fault ends it.
var ErrDied = errors.New("a fault has ended the app-server")
