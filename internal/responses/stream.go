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
// (ResponseStreamEvent). Each has a type and a sequence_number, from 0 on without gaps:
//
//   - response.created and response.in_progress,
//   - for each item response.output_item.added, events of its type, and
//     response.output_item.done. A message has content parts and texts, reasoning the parts
//     and texts of its summary, a call its arguments.
//   - response.completed, response.incomplete or response.failed, with the whole Response.
//
// These are the items:
//
//   - Text is a message. A new one begins with each message of the model's, and after a call
//     or reasoning.
//   - A reasoning item of the model's is an item, with the parts of its summary. Without a
//     summary, it is shown only if the client wants its encrypted content.
//   - A call is an item, unless calls are part of the text.
//
// A Stream must not be used by several goroutines at once.
type Stream struct {
	meta  Meta
	state responseState // without its output; the usage is 0 until it ends well
	items []*outputItem // in their order
	shown int           // how many of them the client sees
	open  *outputItem   // the item under way, or nil
	done  bool
	last  []byte // the whole Response, once it has ended

	emit     func(event string, data []byte) error // nil: there are no events
	buf      wirejson.Buffer                       // the event under way
	head     deltaHead
	sequence int64
	err      error // of emit
}

// NewStream returns an encoder that passes the name and the JSON of each event to emit, without any
// framing. A nil emit means that only the whole Response is wanted. The slice is valid during the
// call only. The stream ends at the first error of emit.
func NewStream(meta Meta, emit func(event string, data []byte) error) *Stream {
	state := responseState{ID: meta.ID, Object: "response", CreatedAt: meta.Created, Status: statusInProgress}
	return &Stream{meta: meta, state: state, emit: emit, head: deltaHead{index: hidden}}
}

// Add is [Stream.Write] for a stream without events, which cannot fail.
func (s *Stream) Add(choice int, out turn.Output) { _ = s.Write(choice, out) }

// JSON returns the whole Response, once the turn has ended.
func (s *Stream) JSON() []byte { return s.last }

// ErrCancelled is the error of a response that was cancelled. It must not be changed.
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

// Write encodes an output as any number of events. A response has one choice only. If emit
// fails, Write returns its error; the Response has the output all the same. Outputs after the last
// are ignored.
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

// Fail ends the response with an error. With [ErrCancelled] the response is cancelled.
// There is no event for that: it is a response.failed with a cancelled response.
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

// endMessage ends the message under way, which has a phase.
func (s *Stream) endMessage(phase string) {
	if !s.is(itemMessageType) {
		return
	}
	if slices.Contains(phases, phase) { // clients know no others
		s.open.Phase = phase
	}
	s.close(statusCompleted)
}

// phases lists the phases of a message (MessagePhase).
var phases = []string{"commentary", "final_answer"}

// endReasoning ends a reasoning item. It gets the encrypted content, which the client
// may send back.
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

// annotate adds annotations to the message under way.
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

// is reports whether the item under way has the type.
func (s *Stream) is(kind string) bool { return s.open != nil && s.open.Type == kind }

// isCall reports whether the item under way is the call with an index.
func (s *Stream) isCall(index int) bool {
	return s.open != nil && s.open.form.kind != "" && s.open.call == index
}

// hidden is the index of an item that the client does not see.
const hidden = -1

// item returns the item under way. If its type or source differs, item begins a new one.
func (s *Stream) item(kind, source string) *outputItem {
	if !s.is(kind) || s.open.source != source {
		s.begin(kind, &outputItem{source: source})
	}
	return s.open
}

// begin starts an item of a type, after it has ended the current one.
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

// close ends the current item, if there is one.
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

// finish ends the response as the turn has ended.
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
