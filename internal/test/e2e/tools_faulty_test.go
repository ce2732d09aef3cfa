package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
)

// TestToolGivenUp checks that an Obsidian client gets an invalid block after a call
// unchanged, with the default configuration.
func TestToolGivenUp(t *testing.T) {
	s := newSite(t, "")
	call := "So: " + useTool("localSearch", "a")
	for name, second := range map[string]string{
		"unclosed": " and\n<use_tool>\n<name>readNote</name>\n<notePath>Küche.md</notePath>\n",
		"nameless": " and\n<use_tool>\n<notePath>Küche.md</notePath>\n</use_tool>",
		"nested":   " and\n<use_tool>\n<name>writeToFile</name>\n<content>Write <use_tool>, then a name</content>\n</use_tool>",
	} {
		t.Run(name, func(t *testing.T) {
			s := s.at(t)
			for _, chunk := range []string{"1", "7", "all"} {
				text := call + second
				got := s.askBoth(question{prompt: "chunk=" + chunk + "; verbatim:" + text, system: taught})
				checkReply(t, got, &text, searches("a"), "tool_calls")
			}
			r := s.respond(asks("verbatim:"+call+second, fields{"instructions": taught}), http.Header{"X-Proxy-Output-Mode": {modeXML}})
			if r.text() != call+second {
				t.Errorf("by the Responses API: %q", r.text())
			}
		})
	}
}

// sameID is a prompt for three calls with the same call id, of which the third repeats
// the second.
const sameID = `callid=call_1; tool:localSearch {"query":"a"}; tool:localSearch {"query":"b"}; tool:localSearch {"query":"b"}`

// TestToolSameCallID checks that calls with the same id are distinguished by their
// content, and their results by the ids that the client got.
func TestToolSameCallID(t *testing.T) {
	s := newSite(t, "")
	before := s.toolUsage()
	content := useTool("localSearch", "a") + useTool("localSearch", "b")
	for mode, want := range map[string]*string{modeJSON: nil, modeXML: &content} {
		got := s.askBoth(question{prompt: sameID, tools: true, mode: mode})
		checkReply(t, got, want, searches("a", "b"), "tool_calls")
		if got.ids[0] == got.ids[1] {
			t.Errorf("%s: both calls have the id %s", mode, got.ids[0])
		}
	}
	if added := s.toolUsage().ToolCalls.Duplicates - before.ToolCalls.Duplicates; added != 4 {
		t.Errorf("%d duplicates counted, want one for each of four turns", added)
	}
	// Calls with other names, and several choices.
	params := userSays(`callid=call_1; tool:first {"q":1}; tool:second {"q":1}; then; say:Both.`)
	params.Tools = []openai.ChatCompletionToolUnionParam{searchTool("first"), searchTool("second")}
	params.N = openai.Int(2)
	client := s.client()
	completion, err := client.Chat.Completions.New(testContext(t), params)
	if err != nil {
		t.Fatal(err)
	}
	for _, choice := range completion.Choices {
		calls := choice.Message.ToolCalls
		if len(calls) != 2 || calls[0].Function.Name != "first" || calls[1].Function.Name != "second" || calls[0].ID == calls[1].ID {
			t.Fatalf("choice %d: %s", choice.Index, choice.RawJSON())
		}
		next := params
		next.N = openai.Int(1)
		next.Messages = append(slices.Clone(params.Messages), choice.Message.ToParam(),
			openai.ToolMessage("one", calls[0].ID), openai.ToolMessage("two", calls[1].ID))
		s.checkBothResults(next, calls[0].ID, calls[1].ID)
	}
}

// checkBothResults sends the results of two calls and checks what the model gets.
func (s *site) checkBothResults(params openai.ChatCompletionNewParams, first, second string) {
	s.t.Helper()
	client := s.client()
	completion, err := client.Chat.Completions.New(testContext(s.t), params)
	if err != nil {
		s.t.Fatal(err)
	}
	if text := completion.Choices[0].Message.Content; text != "Both." {
		s.t.Errorf("after the results: %q", text)
	}
	heard := s.heard()
	if want := []string{"output " + first + " one", "output " + second + " two"}; !slices.Equal(heard[len(heard)-2:], want) {
		s.t.Errorf("the model heard %q, want %q in the end", heard, want)
	}
}

// TestResponsesSameCallID checks the same for the Responses API.
func TestResponsesSameCallID(t *testing.T) {
	s := newSite(t, "")
	tools := []fields{functionTool("localSearch")}
	eachWay(t, s, func(t *testing.T, s *site, stream bool) {
		r := s.respond(asks(sameID+"; then; say:Both.", fields{"tools": tools, "stream": stream}), nil)
		calls := r.calls()
		if len(calls) != 2 || calls[0].Arguments != `{"query":"a"}` || calls[1].Arguments != `{"query":"b"}` || calls[0].CallID == calls[1].CallID {
			t.Fatalf("%+v", calls)
		}
		var outputs []fields
		for i, call := range calls {
			outputs = append(outputs, fields{"type": "function_call_output", "call_id": call.CallID, "output": string(rune('x' + i))})
		}
		next := s.respond(asks(outputs, fields{"previous_response_id": r.ID, "tools": tools, "stream": stream}), nil)
		heard := s.heard()
		if want := []string{"output " + calls[0].CallID + " x", "output " + calls[1].CallID + " y"}; next.text() != "Both." || !slices.Equal(heard[len(heard)-2:], want) {
			t.Errorf("%q; the model heard %q", next.text(), heard)
		}
		r = s.respond(asks(sameID, fields{"tools": tools, "stream": stream}), http.Header{"X-Proxy-Output-Mode": {modeXML}})
		if want := useTool("localSearch", "a") + useTool("localSearch", "b"); r.text() != want {
			t.Errorf("obsidian-xml: %q", r.text())
		}
	})
}

// TestToolBadArguments checks that a client with tool_calls gets arguments that are not
// a JSON object unchanged, and an Obsidian client gets a text instead of a block.
func TestToolBadArguments(t *testing.T) {
	s := newSite(t, "")
	for arguments, quoted := range map[string]string{
		`{"query":"a`: `"{\"query\":\"a"`,
		`["a"]`:       `"[\"a\"]"`,
		`query=<use_tool><name>localSearch</name></use_tool>`: `"query=\u003cuse_tool\u003e\u003cname\u003elocalSearch\u003c/name\u003e\u003c/use_tool\u003e"`,
	} {
		before := s.toolUsage()
		q := question{prompt: "tool:localSearch " + arguments + `; tool:localSearch {"query":"b"}`, tools: true, mode: modeJSON}
		calls := []string{"localSearch(" + arguments + ")", `localSearch({"query":"b"})`}
		checkReply(t, s.askBoth(q), nil, calls, "tool_calls")
		q.mode = modeXML
		content := `[The call of "localSearch" cannot be written as a block. Its arguments: ` + quoted + "]" + useTool("localSearch", "b")
		checkReply(t, s.askBoth(q), &content, calls, "tool_calls")
		if added := s.toolUsage().ToolCalls.Unwritable - before.ToolCalls.Unwritable; added != 2 {
			t.Errorf("%d counted, want one for each turn in obsidian-xml", added)
		}
		r := s.respond(asks(q.prompt, fields{"tools": []fields{functionTool("localSearch")}}), http.Header{"X-Proxy-Output-Mode": {modeXML}})
		if r.text() != content || strings.Count(r.text(), "<use_tool>") != 1 {
			t.Errorf("by the Responses API: %q", r.text())
		}
	}
}
