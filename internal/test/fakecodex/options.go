package fakecodex

import (
	"errors"
	"time"

	"github.com/tidwall/gjson"
)

// Options configure a server.
type Options struct {
	// Transcripts are the recordings, from [Load].
	Transcripts *Transcripts
	// Default names the recording for turns that no other matches; empty: such turns fail.
	Default string
	// RateLimits is the RateLimitSnapshot in JSON with which account/rateLimits/read is answered.
	// Without it the call is refused, as without an account.
	RateLimits string
	// Turn, if not nil, returns the messages of each turn instead of a recording.
	Turn func(Asked) []Step
	// Call, if not nil, answers calls after the handshake in place of the server, with send: it returns false
	// for those that the server is to answer.
	Call func(send func(line string), method, id string, params gjson.Result) bool
	// Heard, if not nil, gets each line of the client's, without line break, valid during the call.
	Heard func(line []byte)
	// Told, if not nil, is called with each message to the client before it is written.
	Told func(line string)
	// Faults make the server misbehave.
	Faults Faults
}

// Faults are ways to misbehave. The zero value has none.
type Faults struct {
	// Mute lists methods that are not answered. Without an answer to turn/start no turn begins.
	Mute []string
	// DieAt is a method whose call ends the server.
	DieAt string
	// DieAfter is the number of messages after which the server ends, if not 0.
	DieAfter int
	// Delay is the pause before each message of a turn.
	Delay time.Duration
	// StallAfter, if not 0, is the number of messages after which turns stall until interrupted.
	StallAfter int
	// Linger is how long a turn goes on after it was interrupted, as while Codex decodes images.
	Linger time.Duration
	// Overload is the number of calls after initialize that are refused as overloaded (-32001).
	Overload int
}

// ErrDied is the error of [Serve] when a fault ends it.
var ErrDied = errors.New("a fault has ended the app-server")
