package conversations

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

const twoCalls = "reason: hm\ntool: find {\"q\": 1}\ntool: find {\"q\": 2}\nthen\nsay: done"

// calling returns a conversation whose last answer has two calls.
func calling(t *testing.T, s *e2e.Site, user string) (one talk, message chatMessage) {
	t.Helper()
	one = talk{user: user, system: "You call.", messages: []chatMessage{{"role": "user", "content": twoCalls}}}
	message = sayIn(t, s, &one, true)
	one.answerResults(message)
	return one, message
}

// lastKey returns the cache key of the last request to the model.
func lastKey(s *e2e.Site) string {
	s.T.Helper()
	request, ok := s.Model.Last()
	if !ok {
		s.T.Fatal("the model was not asked")
	}
	return request.PromptCacheKey
}

// TestConversationsThatCannotGoOn removes threads, or sends what a parked turn cannot
// accept. Each time the client gets its answer, and the model the whole history.
func TestConversationsThatCannotGoOn(t *testing.T) { e2e.OverBoth(t, testConversationsThatCannotGoOn) }

func testConversationsThatCannotGoOn(t *testing.T) {
	s := e2e.NewSite(t, "api_key ann-key ann")
	s.WaitReadyAs(e2e.Bearer("ann-key"))
	for name, c := range map[string]struct {
		meanwhile func(t *testing.T)
		change    func(one *talk)
		resumed   bool
	}{
		"nothing happens": {nil, nil, true},
		"a reload":        {func(t *testing.T) { s.Load(s.Caddyfile("api_key ann-key ann\nmax_concurrent 9")) }, nil, true},
		"codex is killed": {func(t *testing.T) {
			old := e2e.Codexes(0)
			e2e.Kill(t, "codex")
			e2e.WaitFor(t, "the old codex to end", e2e.AllGone(old))
			s.WaitReadyAs(e2e.Bearer("ann-key"))
		}, nil, false},
		"a result in parts": {nil, func(one *talk) {
			one.messages[3]["content"] = []any{map[string]any{"type": "text", "text": "see"}, map[string]any{"type": "text", "text": "this"}}
		}, true},
		"other results":      {nil, func(one *talk) { one.messages = append(one.messages[:1], one.messages[4:]...) }, false},
		"an edited question": {nil, func(one *talk) { one.messages[0] = chatMessage{"role": "user", "content": twoCalls + "!"} }, false},
		"an edited answer":   {nil, func(one *talk) { one.messages[1]["content"] = "I never said so" }, false},
		"other instructions": {nil, func(one *talk) { one.system = "You do not call." }, false},
		"a question with it": {nil, func(one *talk) {
			one.messages = append(one.messages, chatMessage{"role": "user", "content": "say: and more"})
		}, true},
		"a long result":       {nil, func(one *talk) { one.messages[2]["content"] = strings.Repeat("0123456789", 60_000) }, true},
		"an empty result":     {nil, func(one *talk) { one.messages[2]["content"] = "" }, true},
		"a developer's words": {nil, func(one *talk) { one.messages = append(one.messages, chatMessage{"role": "developer", "content": "x"}) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.At(t)
			one, _ := calling(t, s, "ann")
			key := lastKey(s)
			if c.meanwhile != nil {
				c.meanwhile(t)
			}
			if c.change != nil {
				c.change(&one)
			}
			if len(one.messages) == 1 { // only the question is left
				one.messages = append(one.messages, chatMessage{"role": "assistant", "content": "No."}, chatMessage{"role": "user", "content": "say: well"})
			}
			sayIn(t, s, &one, false)
			request, _ := s.Model.Last()
			if resumed := request.PromptCacheKey == key; resumed != c.resumed {
				t.Errorf("resumed: %t", resumed)
			}
			want := 1 + len(one.messages)
			for _, message := range one.messages {
				if calls, ok := message["tool_calls"].([]any); ok {
					want += len(calls) - 1
					if message["content"] != nil {
						want++
					}
				}
			}
			if got := spokenTo(request); len(got) != want {
				t.Errorf("the model was given %d items, want %d:\n%.2000s", len(got), want, strings.Join(got, "\n"))
			}
			for _, message := range one.messages {
				if text, ok := message["content"].(string); ok && !slices.ContainsFunc(spokenTo(request), func(line string) bool { return strings.HasSuffix(line, text) }) {
					t.Errorf("the model was not given %.100q", text)
				}
			}
		})
	}
}

// TestConversationsAtOnce sends the same follow-up concurrently, and checks that one
// continues the thread and all get their answer.
func TestConversationsAtOnce(t *testing.T) {
	s := e2e.NewSite(t, "api_key ann-key ann\napi_key bob-key bob")
	s.WaitReadyAs(e2e.Bearer("ann-key"))
	one, _ := calling(t, s, "ann")
	before := lastKey(s)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			key := "ann-key"
			if i%2 == 1 {
				key = "bob-key"
			}
			response, text := s.Post(one.body(false), e2e.Bearer(key))
			if response.StatusCode != http.StatusOK || !strings.Contains(text, `"done"`) {
				t.Errorf("%s %s", response.Status, text)
			}
		})
	}
	all.Wait()
	if n := answeredWith(s, before); n != 2 { // the question and one follow-up
		t.Errorf("%d requests were made in the thread", n)
	}
}

// answeredWith counts the requests to the model with a cache key.
func answeredWith(s *e2e.Site, key string) (n int) {
	for _, request := range s.Model.Requests() {
		if request.PromptCacheKey == key {
			n++
		}
	}
	return n
}

// TestConversationsByOtherForms checks conversations with textual blocks of Obsidian, and
// of the Responses API by id and by items.
func TestConversationsByOtherForms(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		admin := s.WithAdmin(s.Caddyfile(e2e.Patient))
		s.WaitReady()
		t.Run("blocks", func(t *testing.T) {
			s := s.At(t)
			const system = `"messages":[{"role":"system","content":"Write <use_tool> blocks."},{"role":"user","content":"usetool: localSearch {\"query\": \"x\"}"}`
			_, text := s.Post(`{"model":"gpt-5",`+system+`]}`, nil)
			var answer struct {
				Choices []struct{ Message struct{ Content string } }
			}
			if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Choices) == 0 || !strings.Contains(answer.Choices[0].Message.Content, "<use_tool>") {
				t.Fatal(text, err)
			}
			said, _ := json.Marshal(strings.TrimSpace(answer.Choices[0].Message.Content))
			first := lastKey(s)
			// The turn ends a moment after the answer.
			e2e.WaitFor(t, "the turn's end", func() bool {
				_, status := admin.Get("/codex/status")
				return strings.Contains(status, `"kept":1`)
			})
			s.Post(`{"model":"gpt-5",`+system+`,{"role":"assistant","content":`+string(said)+`},{"role":"user","content":"say: Tool localSearch found y"}]}`, nil)
			if lastKey(s) != first {
				t.Error("a conversation with blocks did not go on in its thread")
			}
		})
		t.Run("responses", func(t *testing.T) {
			s := s.At(t)
			tools := []any{map[string]any{"type": "function", "name": "find", "parameters": map[string]any{"type": "object"}}}
			first := s.Respond(e2e.Fields{"model": "gpt-5", "input": twoCalls, "tools": tools, "stream": true}, nil)
			key := lastKey(s)
			var results []any
			for _, item := range first.Output {
				if item.Type == "function_call" {
					results = append(results, e2e.Fields{"type": "function_call_output", "call_id": item.CallID, "output": "r"})
				}
			}
			second := s.Respond(e2e.Fields{"model": "gpt-5", "input": results, "tools": tools, "previous_response_id": first.ID}, nil)
			if lastKey(s) != key {
				t.Error("the results by previous_response_id did not go to the turn")
			}
			s.Respond(e2e.Fields{"model": "gpt-5", "input": "say: bye", "tools": tools, "previous_response_id": second.ID}, nil)
			if lastKey(s) != key {
				t.Error("the conversation did not go on in its thread")
			}
			if n := answeredWith(s, key); n != 3 {
				t.Errorf("%d requests were made in the thread", n)
			}
		})
	})
}

// TestConversationGrowsTooLong checks the error of a conversation that becomes too long in
// its thread, and that it is not billed: Codex then reports the size of the context as the
// usage of the thread.
func TestConversationGrowsTooLong(t *testing.T) { e2e.OverBoth(t, testConversationGrowsTooLong) }

func testConversationGrowsTooLong(t *testing.T) {
	s := e2e.NewSite(t, "")
	for _, partial := range []string{"", "say:Half of it; "} {
		one := talk{messages: []chatMessage{{"role": "user", "content": "say:Hello " + partial}}}
		one.messages = append(one.messages, sayIn(t, s, &one, false),
			chatMessage{"role": "user", "content": partial + "fail:context_length_exceeded too long"})
		response, text := s.Post(one.body(false), nil)
		if response.StatusCode != http.StatusBadRequest || !strings.Contains(text, `"code":"context_length_exceeded"`) {
			t.Error(response.Status, text)
		}
	}
	var raw struct {
		Data []struct{ Usage map[string]int64 }
	}
	if _, text := s.Get("/v1/usage/raw"); json.Unmarshal([]byte(text), &raw) != nil || len(raw.Data) != 4 {
		t.Fatal(text)
	}
	for _, turn := range raw.Data {
		for name, n := range turn.Usage {
			if n < 0 || n > 1000 {
				t.Errorf("%s: %d", name, n)
			}
		}
	}
}
