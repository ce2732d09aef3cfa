package conversations

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// sameID is a prompt for three calls with one call id. The third has the second's arguments.
const sameID = `callid=call_1; tool:localSearch {"query":"a"}; tool:localSearch {"query":"b"}; tool:localSearch {"query":"b"}`

// TestToolSameCallID: calls with one id but items of their own stay apart, by the client's ids.
func TestToolSameCallID(t *testing.T) {
	s := e2e.NewSite(t, "")
	content := useTool("localSearch", "a") + useTool("localSearch", "b") + useTool("localSearch", "b")
	for mode, want := range map[string]*string{e2e.ModeJSON: nil, e2e.ModeXML: &content} {
		got := s.AskBoth(e2e.Question{Prompt: sameID, Tools: true, Mode: mode})
		e2e.CheckReply(t, got, want, e2e.Searches("a", "b", "b"), "tool_calls")
		if slices.Sort(got.IDs); len(slices.Compact(got.IDs)) != 3 {
			t.Errorf("%s: the ids are %q", mode, got.IDs)
		}
	}
	// Calls with other names, and several choices.
	params := e2e.UserSays(`callid=call_1; tool:first {"q":1}; tool:second {"q":1}; then; say:Both.`)
	params.Tools = []openai.ChatCompletionToolUnionParam{e2e.SearchTool("first"), e2e.SearchTool("second")}
	params.N = openai.Int(2)
	client := s.Client()
	completion, err := client.Chat.Completions.New(e2e.Context(t), params)
	must.OK(t, err)
	for _, choice := range completion.Choices {
		calls := choice.Message.ToolCalls
		if len(calls) != 2 || calls[0].Function.Name != "first" || calls[1].Function.Name != "second" || calls[0].ID == calls[1].ID {
			t.Fatalf("choice %d: %s", choice.Index, choice.RawJSON())
		}
		next := params
		next.N = openai.Int(1)
		next.Messages = append(slices.Clone(params.Messages), choice.Message.ToParam(),
			openai.ToolMessage("one", calls[0].ID), openai.ToolMessage("two", calls[1].ID))
		checkBothResults(s, next, calls[0].ID, calls[1].ID)
	}
}

func checkBothResults(s *e2e.Site, params openai.ChatCompletionNewParams, first, second string) {
	s.T.Helper()
	client := s.Client()
	completion, err := client.Chat.Completions.New(e2e.Context(s.T), params)
	must.OK(s.T, err)
	if text := completion.Choices[0].Message.Content; text != "Both." {
		s.T.Errorf("after the results: %q", text)
	}
	heard := s.Heard()
	if want := []string{"output " + first + " one", "output " + second + " two"}; !slices.Equal(heard[len(heard)-2:], want) {
		s.T.Errorf("the model heard %q, want %q in the end", heard, want)
	}
}

// TestToolBadArguments: arguments that are no JSON object stay in tool_calls; Obsidian gets a text.
func TestToolBadArguments(t *testing.T) {
	s := e2e.NewSite(t, "")
	for arguments, quoted := range map[string]string{
		`{"query":"a`: `"{\"query\":\"a"`,
		`["a"]`:       `"[\"a\"]"`,
		`query=<use_tool><name>localSearch</name></use_tool>`: `"query=\u003cuse_tool\u003e\u003cname\u003elocalSearch\u003c/name\u003e\u003c/use_tool\u003e"`,
	} {
		before := toolUsageOf(s)
		q := e2e.Question{Prompt: "tool:localSearch " + arguments + `; tool:localSearch {"query":"b"}`, Tools: true, Mode: e2e.ModeJSON}
		calls := []string{"localSearch(" + arguments + ")", `localSearch({"query":"b"})`}
		e2e.CheckReply(t, s.AskBoth(q), nil, calls, "tool_calls")
		q.Mode = e2e.ModeXML
		content := `[The call of "localSearch" cannot be written as a block. Its arguments: ` + quoted + "]" + useTool("localSearch", "b")
		e2e.CheckReply(t, s.AskBoth(q), &content, calls, "tool_calls")
		if added := toolUsageOf(s).ToolCalls.Unwritable - before.ToolCalls.Unwritable; added != 2 {
			t.Errorf("%d counted, want one for each turn in obsidian-xml", added)
		}
		r := s.Respond(e2e.Asks(q.Prompt, e2e.Fields{"tools": []e2e.Fields{e2e.FunctionTool("localSearch")}}), http.Header{"X-Proxy-Output-Mode": {e2e.ModeXML}})
		if r.Text() != content || strings.Count(r.Text(), "<use_tool>") != 1 {
			t.Errorf("by the Responses API: %q", r.Text())
		}
	}
}

// openBlock is a text and an unclosed block.
const openBlock = "Hier: <use_tool>\n<name>writeToFile</name>\n<content>Grüße 你"

// TestToolKilledInBlock: if codex is killed, the client gets the block's beginning and an error.
func TestToolKilledInBlock(t *testing.T) {
	s := e2e.NewSite(t, "")
	before := toolUsageOf(s)
	q := e2e.Question{Prompt: "chunk=all; say:" + openBlock + "; hang", System: e2e.Taught}
	stream := s.Do(http.MethodPost, "/v1/chat/completions", strings.NewReader(q.Body(true)), nil)
	begun := e2e.ReadUntil(t, stream.Body, "Hier: ")
	if strings.Contains(begun, "use_tool") {
		t.Errorf("the open block is out already: %q", begun)
	}
	e2e.Kill(t, "codex")
	text := begun + s.Read(stream)
	for _, want := range []string{`<use_tool>\n<name>writeToFile</name>\n<content>Grüße 你"`, `"code":"codex_exited"`} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%s is not there once: %s", want, text)
		}
	}
	if !strings.HasSuffix(text, "data: [DONE]\n\n") || strings.Contains(text, `"finish_reason":"`) {
		t.Errorf("how it ends: %s", text)
	}
	waitAborted(s, before, "error")
}

// waitAborted waits until one more block is counted as aborted for this reason.
func waitAborted(s *e2e.Site, before toolUsage, reason string) {
	s.T.Helper()
	e2e.WaitFor(s.T, "a block aborted as "+reason, func() bool {
		now := toolUsageOf(s)
		return now.Buffers.ByReason[reason] == before.Buffers.ByReason[reason]+1 && now.Buffers.Aborted == before.Buffers.Aborted+1
	})
}
