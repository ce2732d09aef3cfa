package responses

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Encoder encodes the outputs of a turn as events of a stream (ResponseStreamEvent), or as a
// Response in one body. Events have a type and a sequence_number, from 0 without gaps. They are:
//
//   - response.created and response.in_progress,
//   - for each item: response.output_item.added, the events of its type, and
//     response.output_item.done. A message has events about its content parts and texts.
//     Reasoning has events about the parts and texts of its summary. A call has events about
//     its arguments.
//   - response.completed, response.incomplete or response.failed, with the whole Response.
//
// These are the items:
//
//   - Text becomes a message. A new message begins with each message of the model, and
//     after an item of another type.
//   - Each reasoning item of the model becomes an item with the parts of its summary. An
//     item without a summary is shown only if the client wants its encrypted content.
//   - A call becomes an item. If calls are part of the text, there are no such items.
//   - Each web search becomes an item.
//   - A summary of the conversation becomes an item, whose content this server alone can read.
type Encoder struct {
	api.Events
	meta       Meta
	state      responseState // without the output; Usage is 0 until the turn ends without an error
	items      []*outputItem // in their order
	shownCount int           // how many of the items the client sees
	openItem   *outputItem   // the item that has begun and not ended, or nil
	finalJSON  []byte        // the JSON of the whole Response; nil: the response has not ended

	prefix   deltaPrefix
	sequence int64 // the sequence number of the next event
}

// NewEncoder returns an encoder. The caller must call Begin.
func NewEncoder(meta Meta) *Encoder {
	state := responseState{ID: meta.ID, Object: "response", CreatedAt: meta.Created, Status: statusInProgress}
	return &Encoder{meta: meta, state: state, prefix: deltaPrefix{itemIndex: hidden}}
}

// Form implements [api.Answer]. The last event has the whole response.
func (s *Encoder) Form() api.Form {
	return api.Form{Counts: true, Repeats: true, Warmup: s.meta.request.Warmup}
}

// NameFields implements [api.Answer].
func (s *Encoder) NameFields(apiErr *apierror.Error) *apierror.Error {
	e := s.meta.request.nameFields(apiErr)
	if e == nil || e.Status < http.StatusInternalServerError && e.Status != http.StatusNotFound || !s.meta.summary {
		return e
	}
	// The summary has failed. Codex, as a client, would send the whole conversation 15 times again if the status
	// said that the server is at fault, and 3 times for a 404. It shows the text of a 400.
	wrong := *e
	wrong.Status, wrong.Type, wrong.RetryAfter, wrong.ShouldRetry = http.StatusBadRequest, apierror.TypeInvalidRequest, 0, new(bool) // false
	wrong.Message = "The conversation could not be summarised, so it stays as it is. " + e.Message
	return &wrong
}

// JSON returns the whole Response, or nil if the response has not ended.
func (s *Encoder) JSON() []byte { return s.finalJSON }

// Open writes the events before the first item.
func (s *Encoder) Open() error {
	object := s.responseJSON()
	s.sendResponse("response.created", object)
	s.sendResponse("response.in_progress", object)
	return s.Err()
}

// Write encodes an output as any number of events. The choice is not used: a response has only one. If emit
// fails, Write fails, but the Response gets the output nevertheless. Write ignores outputs after the end.
func (s *Encoder) Write(_ int, out turn.Output) error {
	if s.Over() {
		return s.Err()
	}
	switch out.Kind {
	case turn.OutputText:
		if out.Gap { // a separator: the next text begins a new message
			s.endMessage(out.Phase)
		} else if out.Text != "" {
			s.addText(s.openOrBegin(typeMessage, ""), 0, out.Text)
		}
	case turn.OutputReasoning:
		if !out.Gap && out.Text != "" { // a separator is not needed, since out.Part tells the parts apart
			s.addText(s.openOrBegin(typeReasoning, out.ID), out.Part, out.Text)
		}
	case turn.OutputReasoningEnd:
		s.endReasoning(&out)
	case turn.OutputCall:
		s.addCall(&out)
	case turn.OutputSearchStart:
		s.beginItem(typeWebSearch, &outputItem{providerID: out.ID})
	case turn.OutputSearchEnd:
		s.openOrBegin(typeWebSearch, out.ID).text.WriteString(out.Text)
		s.endItem(statusCompleted)
	case turn.OutputAnnotations:
		s.annotate(&out)
	case turn.OutputSummary:
		if out.Name != "" { // otherwise the model wrote none, and the answer follows without
			s.beginItem(typeCompaction, &outputItem{encryptedContent: strings.Clone(out.Name)})
			s.endItem(statusCompleted)
		}
	case turn.OutputFinish:
		s.finish(&out)
	}
	return s.Err()
}

// Fail ends the response with an error, unless the response has ended. With [apierror.ErrCancelled], the
// status is cancelled, but the event is response.failed: the API has no event for cancelled responses.
func (s *Encoder) Fail(e *apierror.Error) error {
	if s.Over() {
		return s.Err()
	}
	s.endItem(statusIncomplete)
	s.state.Error = &responseError{cmp.Or(responseCodes[e.Type], "server_error"), e.Message}
	if e == apierror.ErrCancelled {
		s.endResponse(statusCancelled, eventFailed)
	} else {
		s.endResponse(statusFailed, eventFailed)
	}
	return s.Err()
}

// endMessage ends the open message, if there is one. The message gets the phase, if phases has it.
func (s *Encoder) endMessage(phase string) {
	if !s.isOpen(typeMessage) {
		return
	}
	if slices.Contains(phases, phase) { // clients know no other phases
		s.openItem.Phase = phase
	}
	s.endItem(statusCompleted)
}

var phases = []string{"commentary", "final_answer"}

// endReasoning ends an item of reasoning, and adds the encrypted content, which the client may send back.
// Without a summary, the item has not begun. Then endReasoning begins it, if there is encrypted content.
func (s *Encoder) endReasoning(out *turn.Output) {
	if !s.isOpen(typeReasoning) || s.openItem.providerID != out.ID {
		if out.Text == "" {
			return
		}
		i := &outputItem{providerID: out.ID}
		if !s.meta.request.Encrypted {
			i.index = hidden
		}
		s.beginItem(typeReasoning, i)
	}
	s.openItem.encryptedContent = out.Text
	s.endItem(statusCompleted)
}

func (s *Encoder) addCall(out *turn.Output) {
	if s.meta.CallsInText {
		return
	}
	tool, ok := s.meta.request.originalTools[out.Name]
	if !ok {
		tool = originalTool{callType: typeFunctionCall, name: out.Name}
	}
	item := &outputItem{tool: tool, outputJSON: outputJSON{CallID: out.ID}}
	s.beginItem(tool.callType, item)
	if out.Text != "" {
		item.text.WriteString(out.Text)
		s.sendDelta(item, out.Text)
	}
	s.endItem(statusCompleted)
}

func (s *Encoder) annotate(out *turn.Output) {
	if !s.isOpen(typeMessage) {
		return
	}
	for _, annotation := range wirejson.Value(out.Text).Elements() {
		last := len(s.openItem.annotations)
		s.openItem.annotations = append(s.openItem.annotations, annotation.Compact())
		e := s.openItem.event("response.output_text.annotation.added")
		e.AnnotationIndex, e.Annotation = &last, s.openItem.annotations[last]
		s.send(e)
	}
}

func (s *Encoder) isOpen(kind string) bool { return s.openItem != nil && s.openItem.Type == kind }

// hidden is the index of an item that the client does not see.
const hidden = -1

// openOrBegin returns the open item if it has this type and providerID. Otherwise it begins such an item.
func (s *Encoder) openOrBegin(kind, providerID string) *outputItem {
	if !s.isOpen(kind) || s.openItem.providerID != providerID {
		s.beginItem(kind, &outputItem{providerID: providerID})
	}
	return s.openItem
}

// beginItem ends the open item, if there is one, and begins a new one of the type kind.
func (s *Encoder) beginItem(kind string, item *outputItem) {
	s.endItem(statusCompleted)
	item.Type, item.Status, item.providerID = kind, statusInProgress, strings.Clone(item.providerID)
	suffix := strings.TrimPrefix(s.meta.ID, responseid.Prefix)
	item.ID = responseid.WithSource(responseid.Item(itemTypes[kind].idPrefix, suffix, strconv.Itoa(len(s.items))), item.providerID)
	if item.index != hidden {
		item.index = s.shownCount
		s.shownCount++
	}
	s.items, s.openItem = append(s.items, item), item
	s.sendItem("response.output_item.added", item)
	if kind == typeWebSearch {
		s.send(item.event("response.web_search_call.in_progress"))
		s.send(item.event("response.web_search_call.searching"))
	}
}

func (s *Encoder) endItem(status string) {
	if i := s.openItem; i != nil {
		s.openItem = nil
		s.endPart(i)
		i.Status = status
		s.sendItemEnd(i)
	}
}

// finish ends the response after a turn without an error. A limit or filter makes its status incomplete.
func (s *Encoder) finish(out *turn.Output) {
	s.state.Usage = newUsage(out.End.Usage, out.End.Estimated)
	if reason := incompleteReasons[out.End.Finish]; reason != "" {
		s.state.Incomplete = &incompleteDetails{reason}
		s.endItem(statusIncomplete)
		s.endResponse(statusIncomplete, "response.incomplete")
		return
	}
	s.endItem(statusCompleted)
	if s.meta.Now != nil {
		now := s.meta.Now()
		s.state.CompletedAt = &now
	}
	s.endResponse(statusCompleted, "response.completed")
}

var incompleteReasons = map[turn.FinishReason]string{turn.FinishLength: "max_output_tokens", turn.FinishContentFilter: "content_filter"}

func (s *Encoder) endResponse(status, event string) {
	s.End()
	s.state.Status = status
	s.finalJSON = s.keepResponse()
	s.sendResponse(event, s.finalJSON)
}
