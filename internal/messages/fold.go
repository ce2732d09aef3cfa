package messages

import (
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// fold makes the content blocks of an answer from the outputs of a turn:
//
//   - Text becomes a text block. A new block begins with each message of the model, and after
//     a block of another type.
//   - An item of the model's reasoning becomes a thinking block, if the client wants thinking
//     blocks. The block has the summary, and a signature with the encrypted reasoning.
//   - A call becomes a tool_use block. If calls are part of the text, there are no such blocks.
//   - A web search becomes a server_tool_use block. The results of searches are known only
//     from the citations in the text, so they follow at the end.
type fold struct {
	meta Meta
	to   sink

	open     string         // the type of the block that has begun and not ended; empty: there is none
	item     string         // the id of the reasoning in a thinking block
	searches []string       // the ids of the searches' blocks
	found    []searchResult // the pages that the text cites
	done     bool
}

// sink receives the blocks of an answer, one after the other. end ends the block that begin has
// begun; the methods between them add to this block.
type sink interface {
	begin(b block)
	text(piece string)
	thinking(piece string)
	signature(signature string)
	input(object string) // the whole input of a call, which is not empty
	cite(c citation)
	end()
	finish(end ending, u usage)
}

func (f *fold) add(out *turn.Output) {
	switch out.Kind {
	case turn.OutputText:
		f.text(out)
	case turn.OutputReasoning:
		f.reasoning(out)
	case turn.OutputReasoningEnd:
		f.endReasoning(out)
	case turn.OutputCallEnd:
		f.endCall(out)
	case turn.OutputSearchEnd:
		f.search(out)
	case turn.OutputAnnotations:
		f.annotate(out)
	case turn.OutputFinish:
		f.finish(out)
	}
}

// begin begins a block. It first ends the open block.
func (f *fold) begin(b block) {
	f.close()
	f.open = b.Type
	f.to.begin(b)
}

// noText is the text of a block at its begin.
var noText = ""

// close ends the open block, if there is one.
func (f *fold) close() {
	if f.open != "" {
		f.open = ""
		f.to.end()
	}
}

func (f *fold) text(out *turn.Output) {
	switch {
	case out.Gap:
		if f.open == typeText {
			f.close()
		}
		return
	case out.Text == "":
		return
	case f.open != typeText:
		f.begin(block{Type: typeText, Text: &noText})
	}
	f.to.text(out.Text)
}

func (f *fold) reasoning(out *turn.Output) {
	if f.meta.Thinking != ThinkingShown || out.Text == "" {
		return
	}
	if f.open != typeThinking || f.item != out.ID {
		if out.Gap {
			return // the text only separates two items
		}
		f.beginThinking(out.ID)
	}
	f.to.thinking(out.Text)
}

func (f *fold) beginThinking(item string) {
	f.begin(block{Type: typeThinking, Thinking: &noText, Signature: &noText})
	f.item = strings.Clone(item)
}

// endReasoning ends an item of reasoning. If the item has no block yet, since it had no text,
// endReasoning first begins one for the signature.
func (f *fold) endReasoning(out *turn.Output) {
	if f.meta.Thinking == ThinkingOff {
		return
	}
	if f.open != typeThinking || f.item != out.ID {
		if out.Text == "" {
			return
		}
		f.beginThinking(out.ID)
	}
	if out.Text != "" {
		f.to.signature(sign(out.ID, out.Text))
	}
	f.close()
}

// endCall makes the block of a call. Its input is an object, so the block is made only when the
// arguments are complete.
func (f *fold) endCall(out *turn.Output) {
	if f.meta.CallsInText {
		return
	}
	name, arguments := out.Name, out.Text
	if name == f.meta.Deferred {
		if tool, input, ok := unwrapCall(arguments); ok {
			name, arguments = tool, input
		}
	}
	f.begin(block{Type: typeToolUse, ID: out.ID, Name: name, Input: emptyInput})
	if input := readable(arguments); !isEmptyObject(input) {
		f.to.input(input)
	}
	f.close()
}

var emptyInput = []byte("{}")

func isEmptyObject(input string) bool {
	return len(input) <= 64 && strings.Join(strings.Fields(input), "") == "{}"
}

// search makes the block of a web search. out has the id and the action of the search.
func (f *fold) search(out *turn.Output) {
	id := "srvtoolu_" + strings.TrimPrefix(f.meta.ID, "msg_") + "_" + strconv.Itoa(len(f.searches))
	f.searches = append(f.searches, id)
	f.begin(block{Type: typeSearch, ID: id, Name: webSearch, Input: emptyInput})
	if query := queryOf(out.Text); query != "" {
		f.to.input(string(wirejson.AppendString([]byte(`{"query":`), query)) + "}")
	}
	f.close()
}

// queryOf returns the query of a search action, or the URL of the page that it opened.
func queryOf(action string) string {
	if action == "" {
		return ""
	}
	root, err := wirejson.Parse([]byte(action))
	if err != nil || root.Kind() != wirejson.KindObject {
		return ""
	}
	var query, url wirejson.Value
	root.Pick(wirejson.Into("query", &query), wirejson.Into("url", &url))
	for _, v := range []wirejson.Value{query, url} {
		if v.Kind() == wirejson.KindString {
			return v.Text()
		}
	}
	return ""
}

func (f *fold) annotate(out *turn.Output) {
	for _, c := range citations(out.Text) {
		if f.open == typeText {
			f.to.cite(c)
		}
		f.found = append(f.found, searchResult{Type: "web_search_result", URL: c.URL, Title: c.Title, PageAge: null})
	}
}

// finish writes the results of the searches, and ends the answer.
func (f *fold) finish(out *turn.Output) {
	for i, id := range f.searches {
		b := block{Type: typeSearchResult, ToolUseID: id, Content: []searchResult{}}
		if i == len(f.searches)-1 { // Codex does not say which search found a result, so the last has all
			b.Content = append(b.Content, f.found...)
		}
		f.begin(b)
	}
	f.close()
	f.done = true
	finish := out.Finish
	if f.meta.CallsInText && finish == turn.FinishToolCalls {
		finish = turn.FinishStop // there is no tool_use for which a client could return a result
	}
	f.to.finish(ending{finish, out.StopSequence}, f.meta.usage(out.Usage, out.Estimated, len(f.searches)))
}
