package ollama

import (
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Meta has the data about an answer that an [Encoder] needs.
type Meta struct {
	Model       string    // the name by which the client asked for the model
	Arrived     time.Time // when the request came
	InputTokens int64     // an estimate of the input's tokens, for a turn without a usage
	CallsInText bool      // the text contains the calls, so there are no tool_calls

	generate   bool   // the answer is for a request to /api/generate
	noThinking bool   // the client wants no reasoning
	loadReason string // the done_reason, load or unload, if there is nothing to answer; otherwise empty
}

// Meta returns the Meta of the answer. arrived is when the request came.
func (r *Request) Meta(arrived time.Time) Meta {
	m := Meta{Model: r.Model, Arrived: arrived, InputTokens: int64(r.EstimateTokens(0)), generate: r.generate, noThinking: r.think == "false"}
	switch {
	case r.onlyLoads && r.unload:
		m.loadReason = "unload"
	case r.onlyLoads:
		m.loadReason = "load"
	}
	return m
}

// timeFormat is the form of times in answers. They are in UTC.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// piece is the content of one object: a part of a streamed answer, or the whole answer.
type piece struct {
	content, thinking string
	calls             []call
}

type call struct {
	ID       string   `json:"id"`
	Function function `json:"function"`
}

type function struct {
	Index     int            `json:"index"`
	Name      string         `json:"name"`
	Arguments wirejson.Value `json:"arguments"` // an object
}

// newPiece returns the piece that a client gets for an output. The piece is empty if the output has
// nothing for the client. The error is for a call whose arguments are not an object.
func (m *Meta) newPiece(out *turn.Output) (p piece, _ *apierror.Error) {
	switch {
	case out.Kind == turn.OutputText:
		p.content = out.Text
	case out.Kind == turn.OutputReasoning && !m.noThinking:
		p.thinking = out.Text
	case out.Kind == turn.OutputCall && !m.CallsInText:
		arguments, ok := argumentsObject(out.Text)
		if !ok {
			return p, unreadableClass.Newf("The model has called the tool %.128q with arguments that are not a JSON object, or are nested too deeply. Please try again.", out.Name)
		}
		p.calls = []call{{out.ID, function{out.Call, out.Name, arguments}}}
	}
	return p, nil
}

// aroundArguments is how many arrays and objects of a request are around the arguments of a call: the
// request, its messages, the message, its tool_calls, the call, and its function.
const aroundArguments = 6

// argumentsObject returns the arguments of a call as a JSON object in one line. Empty arguments become {}.
// It reports false if the arguments are no object, or are nested too deeply for the next request.
func argumentsObject(arguments string) (wirejson.Value, bool) {
	if arguments == "" {
		return wirejson.Value("{}"), true
	}
	v, err := wirejson.ParsePart([]byte(arguments), aroundArguments)
	if err != nil || v.Kind() != wirejson.KindObject {
		return nil, false
	}
	return wirejson.Value(v.Compact()), true
}

// appendStart appends the beginning of an object: the model, the time, and p. The caller ends it.
func (m *Meta) appendStart(dst []byte, p *piece, createdAt time.Time) []byte {
	dst = wirejson.AppendString(append(dst, `{"model":`...), m.Model)
	dst = createdAt.UTC().AppendFormat(append(dst, `,"created_at":"`...), timeFormat)
	if m.generate {
		dst = append(dst, `","response":`...)
	} else {
		dst = append(dst, `","message":{"role":"assistant","content":`...)
	}
	dst = wirejson.AppendString(dst, p.content)
	if p.thinking != "" {
		dst = wirejson.AppendString(append(dst, `,"thinking":`...), p.thinking)
	}
	if p.calls != nil {
		dst = wirejson.Append(append(dst, `,"tool_calls":`...), p.calls)
	}
	if !m.generate {
		dst = append(dst, '}')
	}
	return dst
}
