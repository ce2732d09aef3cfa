package fakecodex

import (
	"time"

	"github.com/tidwall/gjson"
)

// Asked describes a turn for [Options].Turn.
type Asked struct {
	Thread, Turn string // ids
	ThreadParams string // parameters of thread/start, in JSON
	Params       string // parameters of turn/start, in JSON
	History      string // texts of the injected items, each with a zero byte after it
}

// Step is one message of a turn that [Options].Turn returns.
type Step struct {
	// Pause is the wait before the message.
	Pause time.Duration
	// Message is a notification, a request with a number as its id, or the answer
	// to turn/start with the id 0 and a result. Anything else is sent as it is. An
	// interrupted turn sends no further messages.
	Message string
	// Await, instead of a message, is the id of a request of this turn: the server
	// waits for its answer.
	Await string
}

// generated returns a turn in the form of a recording.
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
