package messages

import (
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Encoder encodes the outputs of a turn as the events of a streamed message
// (RawMessageStreamEvent), or as a message in one body. It makes content blocks from the outputs:
//
//   - Text becomes a text block. A new block begins with each message of the model, and after
//     a block of another type.
//   - An item of the model's reasoning becomes a thinking block, if the client wants thinking
//     blocks. The block has a signature with the encrypted reasoning, and the summary if the
//     client wants it.
//   - A call becomes a tool_use block. If calls are part of the text, there are no such blocks.
//   - A web search becomes a server_tool_use block. The results of searches are known only
//     from the citations in the text, so the blocks with the results come at the end.
//   - A summary of the conversation becomes a compaction block.
//
// The events are: message_start, with a message without content; the events of the blocks, see beginBlock;
// message_delta, with stop_reason and usage; message_stop. After a failure, an error is the last event.
type Encoder struct {
	api.Events
	meta    Meta
	started bool // message_start has been emitted

	// Of a stream:
	index            int      // the index of the newest block; -1: there is none
	deltaStart       []byte   // the beginning of the deltas of the newest block
	deltaStartMemory [64]byte // the memory of deltaStart

	// Of a body:
	blocks   []block
	lastText strings.Builder // the text or the thinking of the block that has begun and not ended
	ending   ending
	usage    usage

	openType    string         // the type of the block that has begun and not ended; empty: there is none
	reasoningID string         // the id of the reasoning item in the newest thinking block
	searchIDs   []string       // the ids of the blocks of web searches
	citedPages  []searchResult // the pages that the text cites
	summary     *turn.End      // with the usage of the turns for a summary before the answer; nil: there was none
	paused      bool           // the summary is the answer
}

// NewEncoder returns an encoder. The caller must call Begin.
func NewEncoder(meta Meta) *Encoder { return &Encoder{meta: meta} }

// Begin implements [api.Encoder].
func (e *Encoder) Begin(emit api.Emit) {
	e.Events.Begin(emit)
	e.index, e.deltaStart = -1, e.deltaStartMemory[:0]
}

// Open emits message_start, if it has not been emitted.
func (e *Encoder) Open() error {
	if !e.started && e.Streams() {
		e.started = true
		data := append(e.Take(), `{"type":"message_start","message":`...)
		data = wirejson.Append(data, e.meta.message(nil, ending{}, usage{iteration: iteration{Input: e.meta.InputTokens}, Tier: e.meta.tier()}))
		e.Send("message_start", append(data, '}'))
	}
	return e.Err()
}

// Write implements [api.Encoder].
func (e *Encoder) Write(_ int, out turn.Output) error {
	if !e.Over() && e.Err() == nil && e.Open() == nil {
		e.add(&out)
	}
	return e.Err()
}

// Form implements [api.Answer].
func (*Encoder) Form() api.Form { return api.Form{Ping: ping, Counts: true} }

var ping = []byte(`{"type":"ping"}`)

// Fail implements [api.Encoder].
func (e *Encoder) Fail(apiErr *apierror.Error) error { return e.Last("error", errorJSON(apiErr, "")) }

// JSON implements [api.Encoder].
func (e *Encoder) JSON() []byte {
	return wirejson.Append(nil, e.meta.message(e.blocks, e.ending, e.usage))
}

func (e *Encoder) add(out *turn.Output) {
	switch out.Kind {
	case turn.OutputText:
		e.addText(out)
	case turn.OutputReasoning:
		e.addReasoning(out)
	case turn.OutputReasoningEnd:
		e.endReasoning(out)
	case turn.OutputCall:
		e.addCall(out)
	case turn.OutputSearchEnd:
		e.addSearch(out)
	case turn.OutputAnnotations:
		e.addAnnotations(out)
	case turn.OutputSummary:
		e.addSummary(out)
	case turn.OutputFinish:
		e.finish(out)
	}
}

// emptyText is the text, the thinking and the signature of a block that has just begun.
var emptyText = ""

func (e *Encoder) addText(out *turn.Output) {
	switch {
	case out.Gap: // a separator: the next text begins a new block
		if e.openType == typeText {
			e.endBlock()
		}
		return
	case out.Text == "":
		return
	case e.openType != typeText:
		e.beginBlock(block{Type: typeText, Text: &emptyText})
	}
	e.addDelta(deltaText, out.Text)
}

func (e *Encoder) addReasoning(out *turn.Output) {
	if e.meta.Thinking != ThinkingShown || out.Text == "" {
		return
	}
	if e.openType != typeThinking || e.reasoningID != out.ID {
		if out.Gap {
			return // a separator, which the beginning of a block does not need
		}
		e.beginThinking(out.ID)
	}
	e.addDelta(deltaThinking, out.Text)
}

func (e *Encoder) beginThinking(reasoningID string) {
	e.beginBlock(block{Type: typeThinking, Thinking: &emptyText, Signature: &emptyText})
	e.reasoningID = strings.Clone(reasoningID)
}

// endReasoning ends an item of reasoning. The encrypted content (out.Text) becomes the signature of the
// thinking block. If the item has no block yet, since none of its text was shown, endReasoning begins one.
func (e *Encoder) endReasoning(out *turn.Output) {
	if e.meta.Thinking == ThinkingOff {
		return
	}
	if e.openType != typeThinking || e.reasoningID != out.ID {
		if out.Text == "" {
			return
		}
		e.beginThinking(out.ID)
	}
	if out.Text != "" {
		e.addDelta(deltaSignature, makeSignature(out.ID, out.Text))
	}
	e.endBlock()
}

// addCall makes the block of a call. A call of the function for deferred tools becomes a call of the
// deferred tool.
func (e *Encoder) addCall(out *turn.Output) {
	if e.meta.CallsInText {
		return
	}
	name, arguments := out.Name, out.Text
	if name == e.meta.Deferred {
		if tool, input, ok := unwrapCall(arguments); ok {
			name, arguments = tool, input
		}
	}
	e.beginBlock(block{Type: typeToolUse, ID: out.ID, Name: name, Input: emptyInput})
	if input := wrapUnparsed(arguments); len(input) > 64 || strings.Join(strings.Fields(input), "") != "{}" {
		e.addInput(input)
	}
	e.endBlock()
}

var emptyInput = []byte("{}")

// addSearch makes the block of a web search. out.Text is the action of the search.
func (e *Encoder) addSearch(out *turn.Output) {
	id := "srvtoolu_" + strings.TrimPrefix(e.meta.ID, "msg_") + "_" + strconv.Itoa(len(e.searchIDs))
	e.searchIDs = append(e.searchIDs, id)
	e.beginBlock(block{Type: typeSearch, ID: id, Name: webSearch, Input: emptyInput})
	if query := searchQuery(out.Text); query != "" {
		e.addInput(string(wirejson.AppendString([]byte(`{"query":`), query)) + "}")
	}
	e.endBlock()
}

// searchQuery returns the query of a search action, or the URL of the page that the action opened, or "".
func searchQuery(action string) string {
	root, _ := wirejson.Parse([]byte(action)) // nil, without members, if it is no JSON
	var query, url wirejson.Value
	root.Pick(wirejson.Into("query", &query), wirejson.Into("url", &url))
	if text, ok := query.AsText(); ok {
		return text
	}
	address, _ := url.AsText()
	return address
}

func (e *Encoder) addAnnotations(out *turn.Output) {
	for _, c := range citations(out.Text) {
		if e.openType == typeText {
			e.addCitation(c)
		}
		e.citedPages = append(e.citedPages, searchResult{Type: "web_search_result", URL: c.URL, Title: c.Title})
	}
}

// finish writes the results of the searches, and ends the answer.
func (e *Encoder) finish(out *turn.Output) {
	for i, id := range e.searchIDs {
		pages := []searchResult{}
		if i == len(e.searchIDs)-1 { // Codex does not say which search found a page, so the last search gets all pages
			pages = append(pages, e.citedPages...)
		}
		e.beginBlock(block{Type: typeSearchResult, ToolUseID: id, Content: pages})
	}
	e.endBlock()
	e.End()
	finish := out.End.Finish
	if e.meta.CallsInText && finish == turn.FinishToolCalls {
		finish = turn.FinishStop // there is no tool_use for which a client could return a result
	}
	e.ending = newEnding(finish, out.End.StopSequence)
	if e.paused {
		e.ending.Reason, e.summary = new("compaction"), out.End
	}
	e.usage = e.meta.usage(out.End, e.summary, len(e.searchIDs))
	if e.Streams() {
		data := wirejson.Append(append(e.Take(), `{"type":"message_delta","delta":`...), e.ending)
		data = wirejson.Append(append(data, `,"usage":`...), e.usage)
		if e.meta.management != nil {
			data = wirejson.Append(append(data, `,"context_management":`...), e.meta.management)
		}
		e.Send("message_delta", append(data, '}'))
		e.Emit("message_stop", messageStop)
	}
}

var messageStop = []byte(`{"type":"message_stop"}`)
