package ollama

import (
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Meta has the data about an answer that a [Stream] and a [Body] need.
type Meta struct {
	Model       string    // the name by which the client asked for the model
	Arrived     time.Time // when the request came
	InputTokens int64     // an estimate of the input, for a turn without a usage
	CallsInText bool      // calls are part of the text

	generate bool   // the answer is for a request to /api/generate
	silent   bool   // the client wants no reasoning
	loaded   string // the done_reason of a request with nothing to answer: load or unload; otherwise empty
}

// Meta returns the Meta of the answer. arrived is when the request came.
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

// timeFormat is the form of times in answers. They are in UTC.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// piece is the content of one object of an answer. A stream has many objects. An answer in one body
// has one object, with the content of all objects of a stream.
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

// read returns the piece of an output. The piece is empty if the output has nothing for the client.
// read returns an error if the arguments of a call are not an object.
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

// object returns the arguments of a call as a JSON object in one line. It reports false if they are
// not an object.
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

// append appends the beginning of an object of the answer, which ends with the members that p
// gives. The caller appends the further members and the closing brace.
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

// clock has the times of an answer: when its request arrived, when encoding began, and when the first
// piece came.
type clock struct{ arrived, begun, first time.Time }

// note records the time of the first piece.
func (c *clock) note() {
	if c.first.IsZero() {
		c.first = time.Now()
	}
}

// appendEnd appends the members that only the last object has, and its end.
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

// nanoseconds returns the time between two times. The result is at least 1, since clients divide by
// it.
func nanoseconds(from, to time.Time) int64 { return max(1, int64(to.Sub(from))) }
