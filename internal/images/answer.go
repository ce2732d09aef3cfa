package images

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"strconv"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Meta has the data about a request that a [Stream] and a [Body] need.
type Meta struct {
	Created  int64 // when the request came, in seconds since 1970
	Pictures int   // how many pictures the client wants

	isEdit bool // the pictures are made from other pictures
}

// Meta returns the Meta of the request. created is when the request came, in seconds since 1970.
func (r *Request) Meta(created int64) Meta {
	return Meta{Created: created, Pictures: r.Choices(), isEdit: r.isEdit}
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

// Body collects the pictures of a request in one object (OpenAI's ImagesResponse). Only one
// goroutine at a time may use a Body.
type Body struct {
	meta     Meta
	pictures []turn.Output // by choice; Kind 0: there is no picture
	usage    codexrpc.Usage
}

// NewBody returns a body without pictures.
func NewBody(meta Meta) *Body {
	return &Body{meta: meta, pictures: make([]turn.Output, meta.Pictures)}
}

// Add adds an output of a choice.
func (b *Body) Add(choice int, out turn.Output) {
	switch out.Kind {
	case turn.OutputPicture:
		b.pictures[choice] = out
	case turn.OutputFinish:
		b.usage = b.usage.Add(out.End.Usage)
	}
}

// JSON returns the object.
func (b *Body) JSON() []byte {
	body := strconv.AppendInt([]byte(`{"created":`), b.meta.Created, 10)
	body = append(body, `,"data":[`...)
	var first *turn.Output
	for i := range b.pictures {
		p := &b.pictures[i]
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
	return append(wirejson.Append(append(body, `,"usage":`...), newTokens(b.usage)), '}')
}

// appendProperties appends the fields background, output_format and size of a picture to a JSON
// object.
func appendProperties(dst []byte, p *turn.Output) []byte {
	background := "opaque"
	if p.Transparent {
		background = "transparent"
	}
	dst = append(append(append(dst, `,"background":"`...), background...), `","output_format":"png"`...)
	if width, height := pngSize(p.Text); width > 0 {
		dst = strconv.AppendUint(append(dst, `,"size":"`...), uint64(width), 10)
		dst = append(strconv.AppendUint(append(dst, 'x'), uint64(height), 10), '"')
	}
	return dst
}

// pngSize reads the width and the height of a PNG from its first bytes. data is in base64. If data
// is not a PNG, pngSize returns 0, 0.
func pngSize(data string) (width, height uint32) {
	const header = 24
	var head [header]byte
	n, _ := base64.StdEncoding.Decode(head[:], []byte(data[:min(len(data), header/3*4)]))
	if n < header || !bytes.Equal(head[12:16], []byte("IHDR")) {
		return 0, 0
	}
	return binary.BigEndian.Uint32(head[16:]), binary.BigEndian.Uint32(head[20:])
}

// Stream encodes the pictures of a request as events. Each event has a whole picture, since Codex
// gives no partial pictures. Only one goroutine at a time may use a Stream.
type Stream struct {
	meta       Meta
	emit       func(event string, data []byte) error
	pictures   []turn.Output // by choice; empty before the picture has come and after it was emitted
	unfinished int           // how many choices have not finished
	failed     bool
	err        error // the first error of emit
}

// NewStream returns an encoder that passes the name and the JSON of each event to emit. emit must
// not keep data after it returns. The stream ends at the first error of emit.
func NewStream(meta Meta, emit func(event string, data []byte) error) *Stream {
	return &Stream{meta: meta, emit: emit, pictures: make([]turn.Output, meta.Pictures), unfinished: meta.Pictures}
}

// Write encodes an output of a choice. It emits a picture only when the picture's turn has
// finished, since the event has the usage of the turn.
func (s *Stream) Write(choice int, out turn.Output) error {
	switch {
	case s.failed || s.err != nil:
	case out.Kind == turn.OutputPicture:
		s.pictures[choice] = out
	case out.Kind == turn.OutputFinish:
		s.unfinished--
		p := &s.pictures[choice]
		s.emitPicture(p, out.End.Usage)
		*p = turn.Output{}
	}
	return s.err
}

// emitPicture emits the event of a picture.
func (s *Stream) emitPicture(p *turn.Output, usage codexrpc.Usage) {
	event := "image_generation.completed"
	if s.meta.isEdit {
		event = "image_edit.completed"
	}
	data := append(append([]byte(`{"type":"`), event...), `","b64_json":"`...)
	data = append(append(data, p.Text...), `","created_at":`...)
	data = strconv.AppendInt(data, s.meta.Created, 10)
	data = append(appendProperties(data, p), `,"quality":"auto","usage":`...)
	s.err = s.emit(event, append(wirejson.Append(data, newTokens(usage)), '}'))
}

// Fail ends the stream with an error.
func (s *Stream) Fail(apiErr *apierror.Error) error {
	if !s.failed && s.err == nil {
		s.failed = true
		s.err = s.emit("error", apiErr.Body())
	}
	return s.err
}

// Done reports whether the last event has been written.
func (s *Stream) Done() bool { return s.err == nil && (s.failed || s.unfinished == 0) }

// Idle does nothing, since a Stream keeps no buffer.
func (*Stream) Idle() {}
