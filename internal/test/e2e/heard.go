package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// ThreadWait is how long a request waits for its thread, where a turn has to end, or gets another.
const ThreadWait = 2 * time.Second

// OneThread checks that so many requests came from one thread, unless one waited for it in vain.
func (s *Site) OneThread(requests int) {
	s.T.Helper()
	all := s.Prompts()
	if len(all) != requests {
		s.T.Errorf("the model was asked %d times, not %d", len(all), requests)
	}
	for i, one := range all[1:] {
		if one.Key != all[i].Key && one.At.Sub(all[i].At) < ThreadWait {
			s.T.Errorf("request %d has another thread; it %v", i+2, one.Extends(all[i]))
		}
	}
}

// ModelInput is one request to the model.
type ModelInput struct {
	Key   string            `json:"prompt_cache_key"`
	Input []json.RawMessage `json:"input"`
	At    time.Time         `json:"-"` // when the model was asked
}

// Prompts returns the requests to the model since the start of the test.
func (s *Site) Prompts() []ModelInput {
	s.T.Helper()
	var all []ModelInput
	for _, request := range s.Model.Requests() {
		var one ModelInput
		must.OK(s.T, json.Unmarshal(request.Body, &one))
		one.At = request.At
		all = append(all, one)
	}
	return all
}

// Extends returns an error if the input of a request does not begin with that of another.
func (a ModelInput) Extends(before ModelInput) error {
	if len(a.Input) <= len(before.Input) {
		return fmt.Errorf("has %d items, behind %d", len(a.Input), len(before.Input))
	}
	for i, item := range before.Input {
		if string(item) != string(a.Input[i]) {
			return fmt.Errorf("differs in item %d: %s, before %s", i, a.Input[i], item)
		}
	}
	return nil
}

// Heard returns the last request to the model, with a line for each item.
func (s *Site) Heard() []string {
	s.T.Helper()
	request, ok := s.Model.Last()
	if !ok {
		s.T.Fatal("the model was not asked")
	}
	return Describe(request)
}

// Pixel is a PNG of one pixel.
const Pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// codexOwn is the only tool of Codex that cannot be turned off. Codex answers it, but in Plan mode.
const codexOwn = "request_user_input"

// Conversation has every kind of message: two system prompts, messages of all roles, a
// call with its result, a developer message in between, and an image at the end.
const Conversation = `{
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

// Describe returns a line for each input item.
func Describe(request scriptedmodel.Request) []string {
	var lines []string
	for _, item := range request.Input {
		switch item.Type {
		case "message":
			lines = append(lines, item.Role+": "+ContentText(item.Content))
		case "function_call":
			lines = append(lines, "call "+item.CallID+" "+item.Name+"("+item.Arguments+")")
		case "function_call_output":
			lines = append(lines, "output "+item.CallID+" "+ContentText(item.Output))
		default:
			lines = append(lines, item.Type)
		}
	}
	return lines
}

// ContentText returns the texts of a content, and the beginnings of its images.
func ContentText(content scriptedmodel.Content) string {
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

// CheckTools checks that the tools are codexOwn and these.
func CheckTools(t *testing.T, tools []scriptedmodel.Tool, want ...string) {
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

// CheckNothingOfTheHost checks that a request has nothing about the machine.
func CheckNothingOfTheHost(t testing.TB, request scriptedmodel.Request) {
	t.Helper()
	// The model does not read the other members.
	read, err := json.Marshal(struct{ Instructions, Input, Tools any }{request.Instructions, request.Input, request.Tools})
	must.OK(t, err)
	body := string(read)
	for _, trace := range []string{"environment_context", "<cwd>", "sandbox", "skills_instructions", "AGENTS.md", "permissions"} {
		if strings.Contains(body, trace) {
			t.Errorf("the model is told of the host: %q in %s", trace, body)
		}
	}
}

// EffortOf returns a request's effort, or that of the last update in its input, as OpenAI gets it.
func EffortOf(t testing.TB, effort string, input []json.RawMessage) string {
	t.Helper()
	for _, raw := range input {
		var item struct {
			Type      string
			Reasoning scriptedmodel.Reasoning
		}
		if err := json.Unmarshal(raw, &item); item.Type == "configuration_update" {
			if err != nil {
				t.Error(err)
			}
			effort = item.Reasoning.Effort
		}
	}
	return effort
}
