package clients

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/ollamacheck"
)

// testOllamaRequests sends what clients of Ollama's API send that cannot run here.
func testOllamaRequests(t *testing.T, s *e2e.Site) {
	t.Run("VS Code", func(t *testing.T) { playVSCode(t, s.At(t)) })
	t.Run("Home Assistant", func(t *testing.T) { playHomeAssistant(t, s.At(t)) })
	t.Run("a conversation", func(t *testing.T) { talkAsOllama(t, s.At(t)) })
}

// playVSCode finds the models as the chat of VS Code does, and asks one by OpenAI's API.
func playVSCode(t *testing.T, s *e2e.Site) {
	var version struct{ Version string }
	s.GetJSON("/api/version", &version)
	var list struct{ Models []struct{ Model string } }
	s.GetJSON("/api/tags", &list)
	if version.Version != "0.17.4" || len(list.Models) == 0 || !strings.HasSuffix(list.Models[0].Model, ":latest") {
		t.Fatalf("%+v %+v", version, list)
	}
	model := list.Models[0].Model
	var listed struct {
		Window int `json:"context_length"`
	}
	s.GetJSON("/v1/models/"+strings.TrimSuffix(model, ":latest"), &listed)
	if listed.Window == 0 {
		t.Errorf("%s has no window", model)
	}
	_, show := s.Call(http.MethodPost, "/api/show", e2e.Fields{"model": model}, nil)
	for _, want := range []string{`"capabilities":["completion","tools","thinking","vision"]`, `"general.basename":"GPT-`, fmt.Sprintf(`"codex.context_length":%d`, listed.Window)} {
		if !strings.Contains(show, want) {
			t.Errorf("%s has no %s", show, want)
		}
	}
	response, text := s.Post(e2e.EncodeJSON(e2e.Fields{"model": model, "messages": []any{e2e.UserMessage("say:Hello.")}}), nil)
	if request, _ := s.Model.Last(); response.StatusCode != http.StatusOK || !strings.Contains(text, "Hello.") || request.Model+":latest" != model {
		t.Errorf("%d %s of %s", response.StatusCode, text, request.Model)
	}
}

// playHomeAssistant talks like Home Assistant: no ids, no thinking, and a history cut in the end.
func playHomeAssistant(t *testing.T, s *e2e.Site) {
	chat := func(messages ...any) *ollamacheck.Answer {
		t.Helper()
		response, text := s.Call(http.MethodPost, "/api/chat", e2e.Fields{
			"model": "default:latest", "stream": true, "think": false, "keep_alive": "-1s", "options": e2e.Fields{"num_ctx": 8192}, "messages": messages,
			"tools": []any{e2e.Fields{"type": "function", "function": e2e.Fields{"name": "HassTurnOn", "description": "Turns on", "parameters": e2e.Fields{"type": "object", "properties": e2e.Fields{"name": e2e.Fields{"type": "string"}}}}}},
		}, nil)
		a, err := ollamacheck.Stream(text, false)
		if err != nil || response.StatusCode != http.StatusOK || a.Thinking != "" {
			t.Fatalf("%v: %s", err, text)
		}
		return a
	}
	result := func(text string) e2e.Fields { return e2e.Fields{"role": "tool", "content": text} }
	system, user := e2e.Fields{"role": "system", "content": "You control a house."}, e2e.UserMessage(`reason:Hm.; tool:2 HassTurnOn {"name":"lamp %d"}`)
	a := chat(system, user)
	if len(a.Calls) != 2 || string(a.Calls[1].Function.Arguments["name"]) != `"lamp 2"` || a.Reason != "stop" {
		t.Fatalf("%+v", a)
	}
	if request, _ := s.Model.Last(); !strings.Contains(string(request.Body), `"effort":"low"`) {
		t.Errorf("the effort in %.2000s", request.Body)
	}
	var calls []any
	for _, c := range a.Calls {
		calls = append(calls, e2e.Fields{"function": e2e.Fields{"name": c.Function.Name, "arguments": c.Function.Arguments}})
	}
	called := e2e.Fields{"role": "assistant", "content": "", "tool_calls": calls}
	if a := chat(system, user, called, result("one is on"), result("two is on")); a.Text != "The tools said:\n- one is on\n- two is on" {
		t.Errorf("%+v", a)
	}
	if a := chat(system, result("two is on"), e2e.Fields{"role": "assistant", "content": "Both are on."}, e2e.UserMessage("say:You are welcome.")); a.Text != "You are welcome." {
		t.Errorf("%+v", a)
	}
}

// talkAsOllama has a conversation as clients of Ollama's API keep it: with an image, without ids and
// reasoning, and with one of two calls cut off.
func talkAsOllama(t *testing.T, s *e2e.Site) {
	const begin = "Hello, Ollama by hand."
	hello := e2e.UserMessage("say:" + begin)
	hello["images"] = []string{e2e.Pixel}
	messages := []any{hello}
	ask := func(want string, wantCalls int, more ...any) *ollamacheck.Answer {
		t.Helper()
		messages = append(messages, more...)
		_, text := s.Call(http.MethodPost, "/api/chat", e2e.Fields{
			"model": "default:latest", "messages": messages, "think": true,
			"tools": []any{e2e.Fields{"type": "function", "function": e2e.Fields{"name": "look", "parameters": e2e.Fields{"type": "object"}}}},
		}, nil)
		a, err := ollamacheck.Stream(text, false)
		if err != nil || a.Text != want || len(a.Calls) != wantCalls {
			t.Fatalf("%v: %s", err, text)
		}
		answer := e2e.Fields{"role": "assistant", "content": a.Text}
		for _, c := range a.Calls {
			calls, _ := answer["tool_calls"].([]any)
			answer["tool_calls"] = append(calls, e2e.Fields{"function": e2e.Fields{"name": c.Function.Name, "arguments": c.Function.Arguments}})
		}
		messages = append(messages, answer)
		return a
	}
	result := func(text string) e2e.Fields { return e2e.Fields{"role": "tool", "content": text} }
	ask(begin, 0)
	if a := ask("", 2, e2e.UserMessage(`reason:Hm.; tool:2 look {"at":"%d"}`)); a.Thinking != "Hm." || string(a.Calls[1].Function.Arguments["at"]) != `"2"` {
		t.Errorf("%+v", a)
	}
	ask("The tools said:\n- one\n- two", 0, result("one"), result("two"))
	ask("", 2, e2e.UserMessage(`tool:2 look {"at":"%d"}`))
	cut := messages[len(messages)-1].(e2e.Fields)
	cut["tool_calls"] = cut["tool_calls"].([]any)[:1]
	ask("The tool said: three", 0, result("three"))
	ask("Bye.", 0, e2e.UserMessage("say:Bye."))

	var keys []string
	for _, one := range s.Prompts() {
		if text := e2e.EncodeJSON(one.Input); strings.Contains(text, begin) {
			keys = append(keys, one.Key)
			if images := strings.Count(text, "input_image"); images != 1 {
				t.Errorf("request %d has %d images", len(keys), images)
			}
		}
	}
	if len(keys) != 6 {
		t.Fatalf("the model was asked %d times", len(keys))
	}
	for i := range keys[1:] {
		if cut := i+1 == 4; (keys[i] != keys[i+1]) != cut {
			t.Errorf("of the threads %v the one of request %d is another one: %t", keys, i+2, !cut)
		}
	}
}
