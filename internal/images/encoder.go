package images

import (
	"encoding/base64"
	"fmt"
	"image/png"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Meta has the data about a request that an [Encoder] needs.
type Meta struct {
	Created  int64 // when the request came, in seconds since 1970
	Pictures int   // how many pictures the client wants

	isEdit bool // the pictures are made from other pictures
}

// tokens is the usage in an answer (OpenAI's ImagesUsage). It counts the tokens that the model has
// read and written to call the tool. Codex does not report the tokens of the picture itself.
type tokens struct {
	Total   int64 `json:"total_tokens"`
	Input   int64 `json:"input_tokens"`
	Output  int64 `json:"output_tokens"`
	Details struct {
		Text  int64 `json:"text_tokens"`
		Image int64 `json:"image_tokens"`
	} `json:"input_tokens_details"`
}

func newTokens(u codexrpc.Usage) tokens {
	t := tokens{Total: u.InputTokens + u.OutputTokens, Input: u.InputTokens, Output: u.OutputTokens}
	t.Details.Text = u.InputTokens
	return t
}

// Encoder encodes the pictures of a request as events, or as one object (OpenAI's ImagesResponse).
// Each event has a whole picture, since Codex gives no partial pictures.
type Encoder struct {
	api.Events
	meta       Meta
	pictures   []turn.Output // by choice; Kind 0: there is no picture, or the picture's event was emitted
	usage      codexrpc.Usage
	unfinished int // how many choices have not finished
}

// NewEncoder returns an encoder. The caller must call Begin.
func NewEncoder(meta Meta) *Encoder {
	return &Encoder{meta: meta, pictures: make([]turn.Output, meta.Pictures), unfinished: meta.Pictures}
}

// Write implements [api.Encoder]. A picture's event has the turn's usage, so it waits for the turn's end.
func (e *Encoder) Write(choice int, out turn.Output) error {
	switch {
	case e.Over() || e.Err() != nil:
	case out.Kind == turn.OutputPicture:
		e.pictures[choice] = out
	case out.Kind == turn.OutputFinish:
		e.usage = e.usage.Add(out.End.Usage)
		if e.Streams() {
			e.emitPicture(&e.pictures[choice], out.End.Usage)
			e.pictures[choice] = turn.Output{}
		}
		if e.unfinished--; e.unfinished == 0 {
			e.End()
		}
	}
	return e.Err()
}

func (e *Encoder) emitPicture(p *turn.Output, usage codexrpc.Usage) {
	event := "image_generation.completed"
	if e.meta.isEdit {
		event = "image_edit.completed"
	}
	data := append(append([]byte(`{"type":"`), event...), `","b64_json":"`...)
	data = append(append(data, p.Text...), `","created_at":`...)
	data = strconv.AppendInt(data, e.meta.Created, 10)
	data = append(appendProperties(data, p), `,"quality":"auto","usage":`...)
	e.Emit(event, append(wirejson.Append(data, newTokens(usage)), '}'))
}

// Form implements [api.Answer].
func (*Encoder) Form() api.Form { return api.Form{Partial: true} }

// NameFields implements [api.Answer].
func (*Encoder) NameFields(apiErr *apierror.Error) *apierror.Error {
	return apiErr.WithConversation("prompt")
}

// Fail implements [api.Encoder].
func (e *Encoder) Fail(apiErr *apierror.Error) error { return e.Last("error", apiErr.Body()) }

// JSON implements [api.Encoder].
func (e *Encoder) JSON() []byte {
	body := strconv.AppendInt([]byte(`{"created":`), e.meta.Created, 10)
	body = append(body, `,"data":[`...)
	var first *turn.Output
	for i := range e.pictures {
		p := &e.pictures[i]
		if p.Kind != turn.OutputPicture {
			continue
		}
		if first == nil {
			first = p
		} else {
			body = append(body, ',')
		}
		body = append(append(append(body, `{"b64_json":"`...), p.Text...), '"')
		if p.Name != "" {
			body = wirejson.AppendString(append(body, `,"revised_prompt":`...), p.Name)
		}
		body = append(body, '}')
	}
	body = append(body, ']')
	if first != nil {
		body = appendProperties(body, first)
	}
	return append(wirejson.Append(append(body, `,"usage":`...), newTokens(e.usage)), '}')
}

// appendProperties appends a picture's background, output_format and size to a JSON object.
func appendProperties(dst []byte, p *turn.Output) []byte {
	background := "opaque"
	if p.Transparent {
		background = "transparent"
	}
	dst = append(append(append(dst, `,"background":"`...), background...), `","output_format":"png"`...)
	if c, err := png.DecodeConfig(base64.NewDecoder(base64.StdEncoding, strings.NewReader(p.Text))); err == nil {
		dst = fmt.Appendf(dst, `,"size":"%dx%d"`, c.Width, c.Height)
	}
	return dst
}
