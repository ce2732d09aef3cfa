package ollama

import (
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Meta is what the forms of an answer have in common.
type Meta struct {
	Model       string    // as the client asked for it
	Arrived     time.Time // when the request has come
	InputTokens int64     // about how many the input has, for a turn without a usage
	CallsInText bool      // calls are part of the text

	generate bool // the answer is one of /api/generate
	silent   bool // the client wants no reasoning
	loaded   string
}

// Meta returns the meta of an answer to a request that arrived at a time.
func (r *Request) Meta(arrived time.Time) Meta {
	m := Meta{Model: r.Model, Arrived: arrived, InputTokens: int64(r.GuessTokens()), generate: r.generate, silent: r.think == "false"}
	switch {
	case r.loads && r.unload:
		m.loaded = "unload"
	case r.loads:
		m.loaded = "load"
	}
	return m
}

// timeFormat is the form of times, which are in UTC.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// piece is the content of one object of an answer. The pieces of a stream add up to the piece of a
// body.
type piece struct {
	content, thinking string
	calls             []call
}

// call is a ToolCall.
type call struct {
	ID       string   `json:"id"`
	Function function `json:"function"`
}

type function struct {
	Index     int            `json:"index"`
	Name      string         `json:"name"`
	Arguments wirejson.Value `json:"arguments"` // an object
}

// read returns the piece of an output. It is empty if the output has nothing for the client. It
// fails if the arguments of a call are no object.
func (m *Meta) read(out *turn.Output) (p piece, _ *apierror.Error) {
	switch {
	case out.Kind == turn.OutputText:
		p.content = out.Text
	case out.Kind == turn.OutputReasoning && !m.silent:
		p.thinking = out.Text
	case out.Kind == turn.OutputCallEnd && !m.CallsInText:
		arguments, ok := object(out.Text)
		if !ok {
			return p, unreadableArguments(out.Name)
		}
		p.calls = []call{{out.ID, function{out.Call, out.Name, arguments}}}
	}
	return p, nil
}

func (p *piece) empty() bool { return p.content == "" && p.thinking == "" && p.calls == nil }

// object returns the arguments of a call as an object in one line.
func object(arguments string) (wirejson.Value, bool) {
	if arguments == "" {
		return wirejson.Value("{}"), true
	}
	v, err := wirejson.Parse([]byte(arguments))
	if err != nil || v.Kind() != wirejson.KindObject {
		return nil, false
	}
	return wirejson.Value(v.Compact()), true
}

// append appends an object with a piece, without its last members.
func (m *Meta) append(to []byte, p *piece, at time.Time) []byte {
	to = wirejson.AppendString(append(to, `{"model":`...), m.Model)
	to = at.UTC().AppendFormat(append(to, `,"created_at":"`...), timeFormat)
	if m.generate {
		to = append(to, `","response":`...)
	} else {
		to = append(to, `","message":{"role":"assistant","content":`...)
	}
	to = wirejson.AppendString(to, p.content)
	if p.thinking != "" {
		to = wirejson.AppendString(append(to, `,"thinking":`...), p.thinking)
	}
	if p.calls != nil {
		to = wirejson.Append(append(to, `,"tool_calls":`...), p.calls)
	}
	if !m.generate {
		to = append(to, '}')
	}
	return to
}

// clock has the times of an answer.
type clock struct{ arrived, begun, first time.Time }

// note notes the time of the first piece.
func (c *clock) note() {
	if c.first.IsZero() {
		c.first = time.Now()
	}
}

// appendEnd appends the members of the last object, and its end.
func (m *Meta) appendEnd(to []byte, out *turn.Output, c *clock, at time.Time) []byte {
	to = append(to, `,"done":true,"done_reason":"`...)
	if m.loaded != "" {
		return append(append(to, m.loaded...), `"}`...)
	}
	reason := out.Finish
	if reason == turn.FinishToolCalls {
		reason = turn.FinishStop
	}
	first := c.first
	if first.IsZero() {
		first = at
	}
	input := out.Usage.InputTokens
	if out.Estimated && input == 0 {
		input = m.InputTokens
	}
	to = append(append(to, reason...), '"')
	for _, member := range []struct {
		name  string
		value int64
	}{
		{"total_duration", nanoseconds(c.arrived, at)},
		{"load_duration", nanoseconds(c.arrived, c.begun)},
		{"prompt_eval_count", input},
		{"prompt_eval_duration", nanoseconds(c.begun, first)},
		{"eval_count", out.Usage.OutputTokens},
		{"eval_duration", nanoseconds(first, at)},
	} {
		to = append(append(append(to, `,"`...), member.name...), `":`...)
		to = strconv.AppendInt(to, member.value, 10)
	}
	return append(to, '}')
}

// nanoseconds returns the time between two times. It is at least 1, since clients divide by it.
func nanoseconds(from, to time.Time) int64 { return max(1, int64(to.Sub(from))) }
