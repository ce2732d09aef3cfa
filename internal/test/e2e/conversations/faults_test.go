package conversations

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
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

func answeredWith(s *e2e.Site, key string) (n int) {
	for _, request := range s.Model.Requests() {
		if request.PromptCacheKey == key {
			n++
		}
	}
	return n
}

// TestConversationsByOtherForms checks Obsidian's textual blocks, and responses by id and by items.
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

// TestConversationGrowsTooLong checks the error of a conversation too long for its thread, and that
// it is not billed: Codex reports the context's size as the thread's usage.
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

// thoughtful is what an agent is asked: the model thinks before each of its answers.
const thoughtful = `reason: I look.
say: looking
tool: find {"q": 1}
tool: find {"q": 2}
then
reason: I know.
say: done`

// thoughtsIn returns a request's encrypted reasoning, each with what precedes it.
func thoughtsIn(request scriptedmodel.Request) (all []string) {
	lines := spokenTo(request)
	for i, item := range request.Input {
		if item.Type == "reasoning" {
			before := request
			before.Input = request.Input[:i]
			all = append(all, fmt.Sprintf("%s behind %q", item.EncryptedContent, lines[:len(spokenTo(before))]))
		}
	}
	return all
}

// refuseThoughts lets the provider refuse and count requests with reasoning, until stop is called.
func refuseThoughts(s *e2e.Site) (refused *atomic.Int32, stop func()) {
	refused = new(atomic.Int32)
	return refused, s.Model.On(func(request scriptedmodel.Request) (scriptedmodel.Script, bool) {
		if len(thoughtsIn(request)) == 0 {
			return scriptedmodel.Script{}, false
		}
		refused.Add(1)
		return scriptedmodel.Script{End: scriptedmodel.HTTPError{Status: 400, Code: "invalid_encrypted_content", Message: "The encrypted content could not be verified."}}, true
	})
}

// answerResults adds the results of the calls of a message to a conversation.
func (t *talk) answerResults(message chatMessage) {
	t.messages = append(t.messages, message)
	calls, _ := message["tool_calls"].([]any)
	for i, call := range calls {
		t.messages = append(t.messages, chatMessage{"role": "tool", "tool_call_id": call.(map[string]any)["id"], "content": fmt.Sprint("result ", i)})
	}
}

// TestRefusedReasoning: a turn starts again without the reasoning that the provider refuses.
func TestRefusedReasoning(t *testing.T) { e2e.OverBoth(t, testRefusedReasoning) }

func testRefusedReasoning(t *testing.T) {
	s := e2e.NewSite(t, "api_key ann-key ann")
	s.WaitReadyAs(e2e.Bearer("ann-key"))
	one := talk{user: "ann", system: "You think.", messages: []chatMessage{{"role": "user", "content": thoughtful}}}
	one.answerResults(sayIn(t, s, &one, true))
	one.answerResults(sayIn(t, s, &one, true))
	one.messages = append(one.messages, chatMessage{"role": "user", "content": "say: more"})
	waiting := one
	waiting.system = "You think, too."
	waiting.messages = one.messages[:1:1]
	waiting.answerResults(sayIn(t, s, &waiting, true))
	refused, stop := refuseThoughts(s)
	defer stop()
	for range 2 { // the same question again has a fresh thread
		message := sayIn(t, s, &one, true)
		request, _ := s.Model.Last()
		if message["content"] != "more" || len(thoughtsIn(request)) > 0 || refused.Load() != 1 {
			t.Errorf("answered %q; %d requests were refused", message["content"], refused.Load())
		}
	}
	// The turn that waits for these results has reasoning, too.
	if message := sayIn(t, s, &waiting, true); message["content"] != "done" || refused.Load() != 2 {
		t.Errorf("answered %q; %d requests were refused", message["content"], refused.Load())
	}
}

// TestReasoningOfAnotherLogin: a response goes on at a login that cannot read its stored reasoning.
func TestReasoningOfAnotherLogin(t *testing.T) { e2e.OverBoth(t, testReasoningOfAnotherLogin) }

func testReasoningOfAnotherLogin(t *testing.T) {
	s := e2e.NewSite(t, "")
	s.WaitReady()
	first := s.Respond(e2e.Asks("reason: I see.; say:one", nil), nil)
	refused, stop := refuseThoughts(s)
	defer stop()
	second := s.Respond(e2e.Asks("say:two", e2e.Fields{"previous_response_id": first.ID}), nil)
	request, _ := s.Model.Last()
	if second.Text() != "two" || refused.Load() == 0 || !strings.Contains(string(request.Body), `"one"`) {
		t.Errorf("answered %q after %d refusals of %s", second.Text(), refused.Load(), request.Body)
	}
}

// TestCallsThatCodexCannotRead lets the model make calls whose arguments Codex cannot read.
// Codex answers these itself and asks the model again. The client has the end of its answer by
// then, so the turn has to end, and the conversation goes on at once in another thread.
func TestCallsThatCodexCannotRead(t *testing.T) { e2e.OverBoth(t, testCallsThatCodexCannotRead) }

func testCallsThatCodexCannotRead(t *testing.T) {
	s, stats := spareSite(t)
	for name, arguments := range map[string]string{
		"nothing":          ``,
		"no JSON":          `not json`,
		"a comma too many": `{"q":1,}`,
		"half a character": `{"q":"\ud800"}`,
		"too deep":         `{"q":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
		"a huge number":    `{"q":1e999}`, // which it can
	} {
		for _, beside := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " beside a call"}[beside], func(t *testing.T) {
				s := s.At(t)
				var results atomic.Int32
				defer s.Model.On(insist(arguments, beside, &results))()
				resumed := stats().Resumed
				// Settings of its own: no spare thread is started meanwhile, or few are.
				one := talk{user: "ann", system: "You call in " + t.Name(), messages: []chatMessage{{"role": "user", "content": name}}}
				message := sayIn(t, s, &one, true)
				one.answerResults(message)
				call := message["tool_calls"].([]any)[0].(map[string]any)
				if got := call["function"].(map[string]any)["arguments"]; got != arguments {
					t.Errorf("the client got the arguments %.100q", got)
				}
				awaitSilence(t, s.Model)
				given := results.Load()
				began := time.Now()
				if got := sayIn(t, s, &one, false)["content"]; got != "done" {
					t.Errorf("the model was not given the results: %q", got)
				}
				if took := time.Since(began); took > 9*time.Second { // the client of a turn that is lost waits for ten
					t.Errorf("the conversation went on after %s", took)
				}
				if more := results.Load() - given; more != 1 {
					t.Errorf("the model was given the results %d times", more)
				}
				if got, want := stats().Resumed > resumed, name == "a huge number"; got != want {
					t.Errorf("the turn had waited: %t", got)
				}
			})
		}
	}
}

// awaitSilence waits until Codex asks the model no more. It may ask some times before it reads that
// the turn is over; a turn that goes on asks at least ten times a second.
func awaitSilence(t *testing.T, model *scriptedmodel.Server) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		asked := model.Stats().Requests
		time.Sleep(400 * time.Millisecond)
		if model.Stats().Requests == asked {
			return
		}
	}
	t.Fatal("the turn goes on without its client")
}

// insist makes a model that makes the same call, perhaps beside another one, until it gets
// a result, and counts these.
func insist(arguments string, beside bool, results *atomic.Int32) func(scriptedmodel.Request) (scriptedmodel.Script, bool) {
	calls := []scriptedmodel.Output{scriptedmodel.Call{Name: "find", Arguments: arguments}}
	if beside {
		calls = append(calls, scriptedmodel.Call{Name: "find", Arguments: `{"q":2}`})
	}
	return func(request scriptedmodel.Request) (scriptedmodel.Script, bool) {
		if strings.HasPrefix(request.Input[len(request.Input)-1].Output.String(), "result ") {
			results.Add(1)
			return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("done")}}, true
		}
		return scriptedmodel.Script{Output: calls}, true
	}
}
