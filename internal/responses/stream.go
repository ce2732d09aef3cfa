package responses

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Stream encodes the outputs of a turn as the events of a streamed response
// (ResponseStreamEvent). Each event has a type and a sequence_number, which counts from 0
// without gaps. The events are:
//
//   - response.created and response.in_progress,
//   - for each item: response.output_item.added, the events of its type, and
//     response.output_item.done. A message has events about its content parts and texts,
//     reasoning about the parts and texts of its summary, and a call about its arguments.
//   - response.completed, response.incomplete or response.failed, with the whole Response.
//
// These are the items:
//
//   - Text becomes a message. A new message begins with each message of the model, and
//     after an item of another type.
//   - Each reasoning item of the model becomes an item with the parts of its summary. An
//     item without a summary is shown only if the client wants its encrypted content.
//   - A call becomes an item. If calls are part of the text, there are no such items.
//   - A web search and a picture become an item each.
//
// A Stream must not be used by several goroutines at once.
type Stream struct {
	meta  Meta
	state responseState // without its output; the usage is 0 until the turn ends without an error
	items []*outputItem // in their order
	shown int           // how many of the items the client sees
	open  *outputItem   // the item that has begun and not ended, or nil
	done  bool
	last  []byte // the JSON of the whole Response, once it has ended

	emit     func(event string, data []byte) error // nil: there are no events
	buf      wirejson.Buffer                       // memory for the event that is being written
	head     deltaHead
	sequence int64
	err      error // the first error of emit
}

// NewStream returns an encoder that passes the name and the JSON of each event to emit, without any
// framing. emit must not keep the slice with the JSON. After an error of emit, no more events are
// sent. If emit is nil, only the whole Response is made.
func NewStream(meta Meta, emit func(event string, data []byte) error) *Stream {
	state := responseState{ID: meta.ID, Object: "response", CreatedAt: meta.Created, Status: statusInProgress}
	return &Stream{meta: meta, state: state, emit: emit, head: deltaHead{index: hidden}}
}

// Add is [Stream.Write] for a stream without events, where Write cannot fail.
func (s *Stream) Add(choice int, out turn.Output) { _ = s.Write(choice, out) }

// JSON returns the whole Response, once the turn has ended.
func (s *Stream) JSON() []byte { return s.last }

// ErrCancelled is the error of a response that was cancelled. Callers must not change its fields.
var ErrCancelled = &apierror.Error{
	Status: http.StatusConflict, Type: apierror.TypeServer, Code: apierror.CodeResponseCancelled,
	Message: "The response was cancelled.",
}

// Open writes the events before the first item.
func (s *Stream) Open() error {
	object := s.object()
	s.whole("response.created", object)
	s.whole("response.in_progress", object)
	return s.err
}

// Write encodes an output as events; some outputs have no event. The first argument is not used,
// since a response has only one choice. If emit fails, Write returns its error, but the Response
// still gets the output. Outputs after the end of the response are ignored.
func (s *Stream) Write(_ int, out turn.Output) error {
	if s.done {
		return s.err
	}
	switch out.Kind {
	case turn.OutputText:
		if out.Gap {
			s.endMessage(out.Phase)
		} else if out.Text != "" {
			s.addText(s.item(itemMessageType, ""), 0, out.Text)
		}
	case turn.OutputReasoning:
		if !out.Gap && out.Text != "" {
			s.addText(s.item(itemReasoningType, out.ID), out.Part, out.Text)
		}
	case turn.OutputReasoningEnd:
		s.endReasoning(&out)
	case turn.OutputCallStart:
		s.startCall(&out)
	case turn.OutputCallArguments:
		if s.isCall(out.Call) && out.Text != "" {
			s.open.text.WriteString(out.Text)
			s.delta(s.open, out.Text)
		}
	case turn.OutputCallEnd:
		if s.isCall(out.Call) {
			s.close(statusCompleted)
		}
	case turn.OutputSearchStart:
		s.begin(itemWebSearch, &outputItem{source: out.ID})
	case turn.OutputSearchEnd:
		s.item(itemWebSearch, out.ID).text.WriteString(out.Text)
		s.close(statusCompleted)
	case turn.OutputPictureStart:
		s.begin(itemPicture, &outputItem{})
	case turn.OutputPicture:
		s.endPicture(out)
	case turn.OutputAnnotations:
		s.annotate(&out)
	case turn.OutputFinish:
		s.finish(&out)
	}
	return s.err
}

// Fail ends the response with an error. With [ErrCancelled] the status of the response is
// cancelled. The API has no event for a cancelled response, so the event is response.failed.
func (s *Stream) Fail(e *apierror.Error) error {
	if s.done {
		return s.err
	}
	s.close(statusIncomplete)
	s.state.Error = &responseError{cmp.Or(responseCodes[e.Type], "server_error"), e.Message}
	if e == ErrCancelled {
		s.end(statusCancelled, eventFailed)
	} else {
		s.end(statusFailed, eventFailed)
	}
	return s.err
}

// Done reports whether the last event has been written.
func (s *Stream) Done() bool { return s.done && s.err == nil }

// endMessage ends the open message, and sets its phase.
func (s *Stream) endMessage(phase string) {
	if !s.is(itemMessageType) {
		return
	}
	if slices.Contains(phases, phase) { // clients know no other phases
		s.open.Phase = phase
	}
	s.close(statusCompleted)
}

// phases lists the phases of a message (MessagePhase).
var phases = []string{"commentary", "final_answer"}

// endReasoning ends a reasoning item, and adds the encrypted content, which the client may send
// back. If the reasoning had no summary, it has no item yet, and endReasoning begins one for the
// encrypted content.
func (s *Stream) endReasoning(out *turn.Output) {
	if !s.is(itemReasoningType) || s.open.source != out.ID {
		if out.Text == "" {
			return
		}
		i := &outputItem{source: out.ID}
		if !s.meta.encrypted {
			i.index = hidden
		}
		s.begin(itemReasoningType, i)
	}
	s.open.encrypted = out.Text
	s.close(statusCompleted)
}

func (s *Stream) startCall(out *turn.Output) {
	if s.meta.CallsInText {
		return
	}
	form, ok := s.meta.forms[out.Name]
	if !ok {
		form = toolForm{kind: itemCall, name: out.Name}
	}
	s.begin(form.kind, &outputItem{form: form, call: out.Call, outputJSON: outputJSON{CallID: out.ID}})
}

// annotate adds annotations to the open message.
func (s *Stream) annotate(out *turn.Output) {
	if !s.is(itemMessageType) {
		return
	}
	for _, annotation := range wirejson.Value(out.Text).Elements() {
		last := len(s.open.annotations)
		s.open.annotations = append(s.open.annotations, annotation.Compact())
		e := s.open.event("response.output_text.annotation.added")
		e.AnnotationIndex, e.Annotation = &last, s.open.annotations[last]
		s.send(e)
	}
}

// is reports whether an item of the type is open.
func (s *Stream) is(kind string) bool { return s.open != nil && s.open.Type == kind }

// isCall reports whether the open item is the call with an index.
func (s *Stream) isCall(index int) bool {
	return s.open != nil && s.open.form.kind != "" && s.open.call == index
}

// hidden is the index of an item that the client does not see.
const hidden = -1

// item returns the open item if it has the type and the source. Otherwise it begins a new item.
func (s *Stream) item(kind, source string) *outputItem {
	if !s.is(kind) || s.open.source != source {
		s.begin(kind, &outputItem{source: source})
	}
	return s.open
}

// begin begins an item of a type. It first ends the open item.
func (s *Stream) begin(kind string, item *outputItem) {
	s.close(statusCompleted)
	item.Type, item.Status, item.source = kind, statusInProgress, strings.Clone(item.source)
	suffix := strings.TrimPrefix(s.meta.ID, responseid.Prefix)
	item.ID = responseid.WithSource(responseid.Item(itemKinds[kind].prefix, suffix, strconv.Itoa(len(s.items))), item.source)
	if item.index != hidden {
		item.index = s.shown
		s.shown++
	}
	s.items, s.open = append(s.items, item), item
	s.added(item)
}

// close ends the open item, if there is one, with a status.
func (s *Stream) close(status string) {
	if i := s.open; i != nil {
		s.open = nil
		s.endPart(i)
		if i.Status = status; i.Type == itemPicture && (i.made == nil || i.made.Err != nil) {
			i.Status = statusFailed
		}
		s.ended(i)
	}
}

// finish ends the response when the turn has ended without an error. The response is incomplete if
// the turn ended early.
func (s *Stream) finish(out *turn.Output) {
	s.state.Usage = newUsage(out.Usage, out.Estimated)
	if reason := incompleteReasons[out.Finish]; reason != "" {
		s.state.Incomplete = &incompleteDetails{reason}
		s.close(statusIncomplete)
		s.end(statusIncomplete, "response.incomplete")
		return
	}
	s.close(statusCompleted)
	if s.meta.Now != nil {
		now := s.meta.Now()
		s.state.CompletedAt = &now
	}
	s.end(statusCompleted, "response.completed")
}

var incompleteReasons = map[turn.FinishReason]string{turn.FinishLength: "max_output_tokens", turn.FinishContentFilter: "content_filter"}

// end ends the response and writes the last event.
func (s *Stream) end(status, event string) {
	s.done, s.state.Status = true, status
	s.last = s.keep()
	s.whole(event, s.last)
}
