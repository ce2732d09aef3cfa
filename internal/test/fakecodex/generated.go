package fakecodex

import (
	"time"

	"github.com/tidwall/gjson"
)

// Asked is what a client asks a turn for that [Options].Turn is to make.
type Asked struct {
	Thread, Turn string // the ids, for the messages
	ThreadParams string // of thread/start, in JSON
	Params       string // of turn/start, in JSON
	History      string // the texts of what was injected, each with a zero byte behind it
}

// Step is one message of a turn that was made.
type Step struct {
	// Pause is how long the server waits before the message.
	Pause time.Duration
	// Message is a notification, a request with a number as its id, the answer to
	// turn/start, with the id 0 and a result, or anything else, which is sent as it
	// is. A turn that is interrupted sends no more of them.
	Message string
	// Await, in place of a message, is the id of a request of this turn whose answer
	// is waited for.
	Await string
}

// generated is a turn in the form of a recording.
func generated(made []Step, threadID, turnID string) *turn {
	t := &turn{thread: threadID, id: turnID, steps: make([]step, len(made))}
	for i, m := range made {
		s := step{message: m.Message, pause: m.Pause}
		switch parsed := gjson.Parse(m.Message); {
		case m.Await != "":
			s.kind, s.id = awaitAnswer, m.Await
		case !parsed.IsObject() || !gjson.Valid(m.Message):
		case parsed.Get("method").Str == turnCompleted:
			s.kind = sendEnd
		case parsed.Get("method").Exists() && parsed.Get("id").Exists():
			s.kind, s.id = sendRequest, parsed.Get("id").Raw
		case parsed.Get("result").Exists():
			s.kind, s.id = sendStartAnswer, parsed.Get("id").Raw
		}
		t.steps[i] = s
	}
	return t
}
