package responses

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// fold makes a Response of the outputs of a turn and reports its progress. It decides
// which items there are:
//
//   - Text is a message. Text of another message of the model's, or after a call or after
//     reasoning, is another one.
//   - A reasoning item of the model's is an item, with the parts of its summary. One
//     without a summary is shown only if the client wants its encrypted content.
//   - A call is an item, unless calls are part of the text.
type fold struct {
	*response
	on    itemEvents
	open  int   // the item under way; -1: none
	calls []int // the items of the calls, by their index in the turn
	done  bool
}

// itemEvents gets the changes of the items that the client sees.
type itemEvents interface {
	added(*outputItem)         // the item has begun
	delta(*outputItem, string) // its text, its last part or its arguments have a new piece
	partAdded(*outputItem)     // a summary has a new part
	annotated(*outputItem)     // its text has a new annotation
	partDone(*outputItem)      // its last part is whole
	ended(*outputItem)         // the item is whole, or as whole as it will be
}

func newFold(meta Meta, on itemEvents) fold {
	return fold{response: newResponse(meta), on: on, open: -1}
}

// add adds the next output. Outputs after the last are ignored.
func (f *fold) add(out *turn.Output) {
	if f.done {
		return
	}
	switch out.Kind {
	case turn.OutputText:
		f.addText(out)
	case turn.OutputReasoning:
		if !out.Gap {
			f.addSummary(out)
		}
	case turn.OutputReasoningEnd:
		f.endReasoning(out)
	case turn.OutputCallStart:
		f.startCall(out)
	case turn.OutputCallArguments:
		if i := f.call(out.Call); i != nil && out.Text != "" {
			i.arguments.WriteString(out.Text)
			f.on.delta(i, out.Text)
		}
	case turn.OutputCallEnd:
		if f.call(out.Call) != nil {
			f.close(statusCompleted)
		}
	case turn.OutputSearchStart:
		f.startSearch(out)
	case turn.OutputSearchEnd:
		f.endSearch(out)
	case turn.OutputAnnotations:
		f.annotate(out)
	case turn.OutputFinish:
		f.finish(out)
	}
}

func (f *fold) addText(out *turn.Output) {
	if out.Gap {
		if i := f.current(itemMessageType); i != nil {
			i.phase = readPhase(out.Phase)
			f.close(statusCompleted)
		}
		return
	}
	if out.Text == "" {
		return
	}
	i := f.current(itemMessageType)
	if i == nil {
		i = f.begin(&outputItem{kind: itemMessageType})
	}
	i.text.WriteString(out.Text)
	f.on.delta(i, out.Text)
}

// readPhase returns the phase if clients know it, or else an empty one.
func readPhase(phase string) string {
	if slices.Contains(phases, phase) {
		return phase
	}
	return ""
}

// phases lists the phases of a message (MessagePhase).
var phases = []string{"commentary", "final_answer"}

// addSummary adds a piece of the summary of a reasoning item.
func (f *fold) addSummary(out *turn.Output) {
	if out.Text == "" {
		return
	}
	i := f.current(itemReasoningType)
	if i == nil || i.source != out.ID {
		i = f.begin(&outputItem{kind: itemReasoningType, source: out.ID})
	}
	if len(i.parts) == 0 || i.part != out.Part {
		f.endPart(i)
		i.part = out.Part
		i.parts = append(i.parts, new(strings.Builder))
		f.on.partAdded(i)
	}
	i.parts[len(i.parts)-1].WriteString(out.Text)
	f.on.delta(i, out.Text)
}

func (f *fold) endPart(i *outputItem) {
	if len(i.parts) > 0 {
		f.on.partDone(i)
	}
}

// endReasoning ends a reasoning item. It gets the encrypted content, which the client
// may send back.
func (f *fold) endReasoning(out *turn.Output) {
	i := f.current(itemReasoningType)
	if i == nil || i.source != out.ID {
		if out.Text == "" {
			return
		}
		i = f.begin(&outputItem{kind: itemReasoningType, source: out.ID, index: hiddenUnless(f.meta.encrypted)})
	}
	i.encrypted = out.Text
	f.close(statusCompleted)
}

// hidden is the index of an item that the client does not see.
const hidden = -1

func hiddenUnless(shown bool) int {
	if shown {
		return 0
	}
	return hidden
}

func (f *fold) startCall(out *turn.Output) {
	if f.meta.CallsInText {
		return
	}
	for len(f.calls) <= out.Call {
		f.calls = append(f.calls, -1)
	}
	form, ok := f.meta.forms[out.Name]
	if !ok {
		form = toolForm{kind: itemCall, name: out.Name}
	}
	f.begin(&outputItem{kind: form.kind, form: form, callID: out.ID})
	f.calls[out.Call] = f.open
}

// call returns the call of an index if it is the current item.
func (f *fold) call(index int) *outputItem {
	if index >= len(f.calls) || f.open < 0 || f.calls[index] != f.open {
		return nil
	}
	return f.items[f.open]
}

// current returns the current item if it has the type.
func (f *fold) current(kind string) *outputItem {
	if f.open < 0 || f.items[f.open].kind != kind {
		return nil
	}
	return f.items[f.open]
}

// begin starts an item, after it has ended the current one.
func (f *fold) begin(item *outputItem) *outputItem {
	f.close(statusCompleted)
	item.status = statusInProgress
	item.source = strings.Clone(item.source)
	item.id = responseid.WithSource(responseid.Item(prefixes[item.kind], f.suffix, strconv.Itoa(len(f.items))), item.source)
	if item.index != hidden {
		item.index = f.shown
		f.shown++
	}
	f.items = append(f.items, item)
	f.open = len(f.items) - 1
	i := f.items[f.open]
	if i.index != hidden {
		f.on.added(i)
	}
	return i
}

// close ends the current item, if there is one.
func (f *fold) close(status string) {
	if f.open < 0 {
		return
	}
	i := f.items[f.open]
	f.open = -1
	if i.kind == itemReasoningType {
		f.endPart(i)
	}
	i.status = status
	if i.index != hidden {
		f.on.ended(i)
	}
}

// finish ends the response as the turn has ended.
func (f *fold) finish(out *turn.Output) {
	f.done = true
	switch out.Finish {
	case turn.FinishLength:
		f.incomplete = "max_output_tokens"
	case turn.FinishContentFilter:
		f.incomplete = "content_filter"
	}
	f.usage, f.estimated = out.Usage, out.Estimated
	if f.incomplete != "" {
		f.close(statusIncomplete)
		f.status = statusIncomplete
		return
	}
	f.close(statusCompleted)
	f.status = statusCompleted
	if f.meta.Now != nil {
		f.completed = f.meta.Now()
	}
}

// fail ends the response with an error.
func (f *fold) fail(status string, err *apierror.Error) {
	f.done = true
	f.close(statusIncomplete)
	f.status, f.err = status, err
}
