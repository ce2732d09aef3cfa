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
	// History has the texts of injected items and earlier turns, each with a zero byte after it.
	History string
	// Reasoning has the encrypted contents of reasoning in it, likewise.
	Reasoning string
	// Resumed means that the turn goes on with the results of its calls, with which History ends.
	Resumed bool
}

// Step is one message of a turn that [Options].Turn returns.
type Step struct {
	// Pause is the wait before the message.
	Pause time.Duration
	// Message is a notification, a request with a number as its id, or the answer to turn/start
	// with the id 0 and a result. Else it is sent as it is. An interrupted turn sends no more.
	Message string
	// Await, instead of a message, is the id of a request of this turn whose answer is awaited.
	Await string
	// Resume, instead of a message, waits for the results of the turn's calls. The
	// turn goes on with what [Options].Turn returns then.
	Resume bool
}

// generated returns a turn in the form of a recording.
func generated(made []Step, threadID, turnID string) *turn {
	return &turn{thread: threadID, id: turnID, steps: generatedSteps(made)}
}

func generatedSteps(made []Step) []step {
	steps := make([]step, len(made))
	for i, m := range made {
		s := step{message: m.Message, pause: m.Pause}
		switch parsed := gjson.Parse(m.Message); {
		case m.Resume:
			s.kind = resume
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
		steps[i] = s
	}
	return steps
}

// aborted is what Codex puts into the history of an interrupted turn.
const aborted = "<turn_aborted>"

// extend adds to the history of the thread.
func (p *player) extend(history, thought string) {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	p.thread.history += history
	p.thread.thought += thought
}

// record adds an item of the model's to the history of the thread, once.
func (p *player) record(message string) {
	m := gjson.Parse(message)
	item := m.Get("params.item")
	if id := item.Get("id").Str; m.Get("params.turnId").Str != p.id || p.told[id] {
		return
	}
	switch kind := item.Get("type").Str; m.Get("method").Str + " " + kind {
	case "item/completed agentMessage":
		p.extend(item.Get("text").Str+separator, "")
	case "rawResponseItem/completed function_call":
		p.extend(item.Get("name").Str+separator+item.Get("arguments").Str+separator, "")
	case "rawResponseItem/completed reasoning":
		p.extend("", item.Get("encrypted_content").Str+separator)
	default:
		return
	}
	p.told[item.Get("id").Str] = true
}

func (p *player) resume() outcome {
	for _, call := range p.calls {
		if result := p.await(p.interrupts, call.answered); result != goOn {
			return result
		}
		if !call.result.Get("success").Bool() { // the turn is about to be interrupted
			return p.await(p.interrupts, make(chan struct{}))
		}
		p.extend(contentKey(call.result.Get("contentItems")), "")
	}
	s := p.server
	s.mu.Lock()
	p.thread.history += p.thread.steered
	p.thread.steered, p.calls, p.told = "", nil, make(map[string]bool)
	asked := p.thread.asked(p.id)
	s.mu.Unlock()
	asked.Resumed = true
	p.turn.steps = append(p.turn.steps, generatedSteps(s.opts.Turn(asked))...)
	return goOn
}

// asked returns what a turn is asked. The server is locked.
func (t *thread) asked(turn string) Asked {
	return Asked{Thread: t.id, Turn: turn, ThreadParams: t.start, Params: `{"input":[]}`, History: t.history, Reasoning: t.thought}
}
