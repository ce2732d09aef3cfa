package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// The parts of a chat request.
type (
	chatRequest struct {
		Model    string        `json:"model"`
		Messages []chatMessage `json:"messages"`
		Tools    []chatTool    `json:"tools,omitempty"`
	}
	chatMessage struct {
		Role       string     `json:"role"`
		Content    string     `json:"content"`
		ToolCalls  []chatCall `json:"tool_calls,omitempty"`
		ToolCallID string     `json:"tool_call_id,omitempty"`
	}
	chatCall struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function chatFunc `json:"function"`
	}
	chatTool struct {
		Type     string   `json:"type"`
		Function chatFunc `json:"function"`
	}
	chatFunc struct {
		Name        string          `json:"name"`
		Arguments   string          `json:"arguments,omitempty"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	}
)

var vaultTools = []chatTool{
	{"function", chatFunc{
		Name: "localSearch", Description: "Search the vault",
		Parameters: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`),
	}},
	{"function", chatFunc{
		Name: "readNote", Description: "Read a note",
		Parameters: json.RawMessage(`{"type":"object","properties":{"notePath":{"type":"string"}},"required":["notePath"]}`),
	}},
}

const (
	systemPrompt = "You are a helpful assistant."
	// textualPrompt is a prompt of clients that read calls from the text.
	textualPrompt = "You are a helpful assistant. To use a tool, write a <use_tool> block."
)

func ask(system string, tools []chatTool, prompt string) string {
	return converse(tools, chatMessage{Role: "system", Content: system}, chatMessage{Role: "user", Content: prompt})
}

func converse(tools []chatTool, messages ...chatMessage) string {
	body, err := json.Marshal(chatRequest{Model: "gpt-5", Messages: messages, Tools: tools})
	if err != nil {
		panic(err) // has strings and valid JSON only
	}
	return string(body)
}

// afterCalls leaves a turn where the product does, at the end of a model response with
// calls. By then all calls have been requested, so their place is always the same.
func afterCalls(events []codexrpc.Event, calls int) bool {
	ended := false
	for _, e := range events {
		switch e.Kind {
		case codexrpc.EventFunctionCall:
			calls--
		case codexrpc.EventResponseCompleted:
			ended = true
		}
	}
	return ended && calls == 0
}

// inTheSecondBlock leaves a turn whose text ends within a textual call.
func inTheSecondBlock(events []codexrpc.Event, _ int) bool {
	var text strings.Builder
	for _, e := range events {
		if e.Kind == codexrpc.EventTextDelta {
			text.WriteString(e.Text)
		}
	}
	return strings.HasSuffix(text.String(), cutBlock)
}

const (
	wholeBlock = "<use_tool>\n<name>localSearch</name>\n<query>notes 1</query>\n</use_tool>\n"
	cutBlock   = "<use_tool>\n<name>localSearch</name>\n<query>notes"
	note       = "# Wochenplan 🗓️\n\n- Montag: Grüße an 田中さん schreiben ✍️\n- Dienstag: “Übersicht” & <Anhang> prüfen\n- Mittwoch: naïve café — 你好, мир! 👩‍👩‍👧\n"
	found      = `{"contentItems":[{"type":"inputText","text":"3 notes found"}],"success":true}`
)

// scenarios returns the turns to record, with different prompts, by which recordings are found.
func scenarios() []scenario {
	all := []scenario{
		{name: "text", request: ask(systemPrompt, nil, "chunk=7; say:Plain text in a few small pieces, without any tools.")},
		{name: "multibyte", request: ask(systemPrompt, nil, "chunk=7; say:Grüße aus dem Vault — 你好 👋🏽, naïve café, мир.")},
		{name: "reasoning", request: ask(systemPrompt, nil, "chunk=7; reason:Let me think about it.\n\nNow it is clear.; say:Here is the answer.")},
		{name: "tool-one-interrupted", leave: afterCalls, request: ask(systemPrompt, vaultTools, `tool:1 localSearch {"query": "one  note", "k": 8}`)},
		{name: "tool-burst-interrupted", leave: afterCalls, request: ask(systemPrompt, vaultTools, `tool:3 localSearch {"query":"note %d"}`)},
		{name: "tool-burst-answered", answer: found, request: ask(systemPrompt, vaultTools, `chunk=7; tool:3 localSearch {"query":"note %d"}; then; say:All three were answered.`)},
		{name: "text-then-tool", leave: afterCalls, request: ask(systemPrompt, vaultTools, `chunk=7; say:Let me look for it.; tool:1 localSearch {"query":"it"}`)},
		{name: "unknown-tool", request: ask(systemPrompt, vaultTools, `chunk=7; tool:1 noSuchTool {"query":"it"}; then; say:There is no such tool.`)},
		{name: "use-tool-one", request: ask(textualPrompt, nil, `chunk=7; usetool:1 localSearch {"query":"one note","salientTerms":["note"]}`)},
		{name: "use-tool-burst", request: ask(textualPrompt, nil, `chunk=7; say:Three searches.; usetool:3 localSearch {"query":"note %d"}`)},
		{name: "use-tool-cut", leave: inTheSecondBlock, request: ask(textualPrompt, nil, "chunk=7; hang; verbatim:"+wholeBlock+cutBlock)},
		{name: "use-tool-write-note", request: ask(textualPrompt, nil, `chunk=4; verbatim:I’ll write the note now.`+"\n\n"+
			"<use_tool>\n<name>writeToFile</name>\n<path>Pläne/Wochenplan.md</path>\n<content>\n"+note+"</content>\n</use_tool>")},
		{name: "followup-tool-output", request: followup(`tool:1 localSearch {"query":"notes"}; chunk=7; then; say:There are three notes.`)},
		{name: "incomplete-max-tokens", request: ask(systemPrompt, nil, "chunk=7; say:This is too lo; incomplete:max_output_tokens")},
		{name: "incomplete-content-filter", request: ask(systemPrompt, nil, "chunk=7; say:This is not ni; incomplete:content_filter")},
		{name: "error-cutoff", request: ask(systemPrompt, nil, "chunk=7; say:The connection will bre; cutoff")},
		{name: "error-rate-limit", request: ask(systemPrompt, nil, "fail:rate_limit_exceeded")},
		{name: "error-quota", request: ask(systemPrompt, nil, "fail:insufficient_quota")},
		{name: "error-context-window", request: ask(systemPrompt, nil, "fail:context_length_exceeded")},
		{name: "error-after-text", request: ask(systemPrompt, nil, "chunk=7; say:So far, so good.; fail:server_error")},
		compaction(),
	}
	for _, status := range []int{400, 401, 403, 404, 429, 500, 503} {
		all = append(all, scenario{
			name:    fmt.Sprintf("error-http-%d", status),
			request: ask(systemPrompt, nil, fmt.Sprintf("http:%d", status)),
		})
	}
	return append(all, withLogin()...)
}

func withLogin() []scenario {
	const text = "chunk=7; say:Plain text, with a login."
	login := setting{set: "login"}
	return []scenario{
		{name: "text", setting: login, request: ask(systemPrompt, nil, text)},
		{name: "tool-burst-interrupted", setting: login, leave: afterCalls, request: ask(systemPrompt, vaultTools, `tool:3 localSearch {"query":"note %d, with a login"}`)},
		{name: "limit", setting: login, request: ask(systemPrompt, nil, "limit:3600 pro")},
		{name: "text", setting: setting{set: "login-accounts-down"}, request: ask(systemPrompt, nil, text)},
		{name: "text", setting: setting{set: refusedLogin}, request: ask(systemPrompt, nil, text)},
	}
}

func followup(prompt string) string {
	call := chatCall{ID: "tool_0_0", Type: "function", Function: chatFunc{Name: "localSearch", Arguments: `{"query":"notes"}`}}
	return converse(vaultTools,
		chatMessage{Role: "system", Content: systemPrompt},
		chatMessage{Role: "user", Content: prompt},
		chatMessage{Role: "assistant", ToolCalls: []chatCall{call}},
		chatMessage{Role: "tool", Content: "3 notes found", ToolCallID: call.ID},
	)
}

// compaction returns a scenario with a conversation that is too long for the model. It
// has a small context window; the real one would need megabytes.
func compaction() scenario {
	long := strings.Repeat("A long story. ", 400)
	return scenario{
		name:    "compaction",
		setting: setting{config: "model_context_window = 1000"},
		request: converse(nil,
			chatMessage{Role: "system", Content: systemPrompt},
			chatMessage{Role: "user", Content: long},
			chatMessage{Role: "assistant", Content: "A long answer."},
			chatMessage{Role: "user", Content: "chunk=7; say:After the compaction."},
		),
	}
}
