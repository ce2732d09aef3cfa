package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// pixel is a PNG of one pixel.
const pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// codexOwn is the only tool of Codex that its configuration cannot turn off. Outside of
// Plan mode Codex answers it.
const codexOwn = "request_user_input"

// conversation has every kind of message: two system prompts, messages of all roles, a
// call with its result, a developer message in between, and an image at the end.
const conversation = `{
	"model": "gpt-5",
	"messages": [
		{"role": "system", "content": "You are a librarian."},
		{"role": "developer", "content": "Answer in rhyme."},
		{"role": "user", "content": "Find <my> notes & more"},
		{"role": "assistant", "content": "Looking.", "tool_calls": [
			{"id": "call_a", "type": "function", "function": {"name": "localSearch", "arguments": "{\"query\": \"notes\" }"}}]},
		{"role": "tool", "tool_call_id": "call_a", "content": "3 notes"},
		{"role": "system", "content": "Be brief from here on."},
		{"role": "assistant", "content": [{"type": "text", "text": "There are three."}]},
		{"role": "user", "content": [
			{"type": "text", "text": "say:A picture."},
			{"type": "image_url", "image_url": {"url": "PIXEL", "detail": "low"}}]}
	],
	"tools": [{"type": "function", "function": {"name": "localSearch", "description": "Search the vault",
		"parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}}}]
}`

// TestWhatTheModelIsOffered checks the request that reaches the model.
func TestWhatTheModelIsOffered(t *testing.T) { overBoth(t, testWhatTheModelIsOffered) }

func testWhatTheModelIsOffered(t *testing.T) {
	s := newSite(t, "")
	response, body := s.post(strings.Replace(conversation, "PIXEL", pixel, 1), nil)
	if response.StatusCode != 200 || !strings.Contains(body, "A picture.") {
		t.Fatal(response.Status, body)
	}
	request, _ := s.model.Last()
	want := []string{
		"developer: You are a librarian.\n\nAnswer in rhyme.",
		"user: Find <my> notes & more",
		"assistant: Looking.",
		`call call_a localSearch({"query": "notes" })`,
		"output call_a 3 notes",
		"developer: Be brief from here on.",
		"assistant: There are three.",
		"user: say:A picture. [image " + pixel[:22] + "]",
	}
	got := describe(request)
	if !slices.Equal(got, want) {
		t.Errorf("the model was given\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	checkTools(t, request.Tools, "localSearch")
	checkNothingOfTheHost(t, request)
}

// describe returns a line for each input item.
func describe(request scriptedmodel.Request) []string {
	var lines []string
	if request.Instructions != "" { // as older releases of Codex send them
		lines = append(lines, "developer: "+request.Instructions)
	}
	for _, item := range request.Input {
		switch item.Type {
		case "message":
			lines = append(lines, item.Role+": "+contentText(item.Content))
		case "function_call":
			lines = append(lines, "call "+item.CallID+" "+item.Name+"("+item.Arguments+")")
		case "function_call_output":
			lines = append(lines, "output "+item.CallID+" "+contentText(item.Output))
		default:
			lines = append(lines, item.Type)
		}
	}
	return lines
}

func contentText(content scriptedmodel.Content) string {
	var parts []string
	for _, p := range content {
		switch {
		case p.ImageURL != "":
			parts = append(parts, "[image "+p.ImageURL[:min(22, len(p.ImageURL))]+"]")
		case p.Text == "<image>" || p.Text == "</image>": // Codex puts these around images
		default:
			parts = append(parts, p.Text)
		}
	}
	return strings.Join(parts, " ")
}

// checkTools checks that the tools are codexOwn and these.
func checkTools(t *testing.T, tools []scriptedmodel.Tool, want ...string) {
	t.Helper()
	var got []string
	for _, tool := range tools {
		if tool.Name != codexOwn {
			got = append(got, tool.Name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the model is offered %q; want %q", got, want)
	}
}

// checkNothingOfTheHost checks that a request has nothing about the machine.
func checkNothingOfTheHost(t testing.TB, request scriptedmodel.Request) {
	t.Helper()
	// The model does not read the other members.
	read, err := json.Marshal(struct{ Instructions, Input, Tools any }{request.Instructions, request.Input, request.Tools})
	if err != nil {
		t.Fatal(err)
	}
	body := string(read)
	for _, trace := range []string{"environment_context", "<cwd>", "sandbox", "skills_instructions", "AGENTS.md", "permissions"} {
		if strings.Contains(body, trace) {
			t.Errorf("the model is told of the host: %q in %s", trace, body)
		}
	}
}

// TestToolSchema checks that the model gets the client's declaration of a tool.
func TestToolSchema(t *testing.T) {
	s := newSite(t, "")
	s.post(strings.Replace(conversation, "PIXEL", pixel, 1), nil)
	request, _ := s.model.Last()
	for _, tool := range request.Tools {
		if tool.Name != "localSearch" {
			continue
		}
		var schema struct {
			Required   []string
			Properties map[string]struct{ Type string }
		}
		if err := json.Unmarshal(tool.Parameters, &schema); err != nil {
			t.Fatal(err)
		}
		if tool.Description != "Search the vault" || !slices.Equal(schema.Required, []string{"query"}) || schema.Properties["query"].Type != "string" {
			t.Errorf("the model is offered %s", tool.Raw)
		}
		return
	}
	t.Error("the tool did not reach the model")
}

func TestToolChoice(t *testing.T) {
	s := newSite(t, "")
	two := []any{tool("localSearch"), tool("readNote")}
	for name, c := range map[string]struct {
		choice any
		want   []string
	}{
		"auto":     {"auto", []string{"localSearch", "readNote"}},
		"none":     {"none", nil},
		"required": {"required", []string{"localSearch", "readNote"}},
		"named":    {map[string]any{"type": "function", "function": map[string]any{"name": "readNote"}}, []string{"readNote"}},
	} {
		t.Run(name, func(t *testing.T) {
			s.at(t).post(chatBody("say:ok", map[string]any{"tools": two, "tool_choice": c.choice}), nil)
			request, _ := s.model.Last()
			checkTools(t, request.Tools, c.want...)
			told := strings.Contains(string(request.Body), "must call")
			if wanted := name == "required" || name == "named"; told != wanted {
				t.Errorf("the model is told to call a tool: %t; want %t", told, wanted)
			}
		})
	}
}

// tool returns the declaration of a tool.
func tool(name string) map[string]any {
	return map[string]any{"type": "function", "function": map[string]any{
		"name":       name,
		"parameters": map[string]any{"type": "object", "properties": map[string]any{"query": map[string]any{"type": "string"}}},
	}}
}

// TestSingleCall checks that an answer has one call if parallel_tool_calls is false.
func TestSingleCall(t *testing.T) {
	s := newSite(t, "")
	_, body := s.post(chatBody(`tool:3 localSearch {"query":"%d"}`, map[string]any{
		"tools": []any{tool("localSearch")}, "parallel_tool_calls": false,
	}), nil)
	if n := strings.Count(body, `"type":"function"`); n != 1 {
		t.Errorf("%d calls in %s", n, body)
	}
}
