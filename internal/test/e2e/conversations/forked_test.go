package conversations

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// plainTalk has a conversation without tools, and returns it with a cache key for each of
// its requests.
func plainTalk(t *testing.T, s *e2e.Site, one *talk, prompts ...string) (key string) {
	t.Helper()
	one.user, one.plain = "ann", true
	for i, prompt := range prompts {
		one.messages = append(one.messages, chatMessage{"role": "user", "content": prompt})
		message := sayIn(t, s, one, i%2 == 0)
		if i < len(prompts)-1 {
			one.messages = append(one.messages, message)
		}
	}
	return lastKey(s)
}

// long makes instructions so long that the provider caches the prompt.
func long(text string) string { return text + strings.Repeat(" It matters.", 100) }

// isFork reports whether a request comes from a fork.
func isFork(request scriptedmodel.Request) bool {
	return strings.Contains(request.Metadata["x-codex-turn-metadata"], "forked_from_thread_id")
}

// itemsOf returns the items of a request's input without their ids.
func itemsOf(t *testing.T, request scriptedmodel.Request) (items []string) {
	t.Helper()
	var body struct{ Input []map[string]any }
	if err := json.Unmarshal(request.Body, &body); err != nil {
		t.Fatal(err)
	}
	for _, item := range body.Input {
		delete(item, "id")
		delete(item, "internal_chat_message_metadata_passthrough")
		text, _ := json.Marshal(item)
		items = append(items, string(text))
	}
	return items
}

// meantBy returns the messages and the reasoning in a request.
func meantBy(request scriptedmodel.Request) (lines []string) {
	for _, item := range request.Input {
		lines = append(lines, item.Role+": "+e2e.ContentText(item.Content)+item.EncryptedContent)
	}
	return lines
}

// asAsked returns all that a request asks of the model, without what differs from thread
// to thread.
func asAsked(t *testing.T, request scriptedmodel.Request) string {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(request.Body, &body); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"client_metadata", "prompt_cache_key", "previous_response_id"} {
		delete(body, name)
	}
	body["input"] = itemsOf(t, request)
	text, _ := json.MarshalIndent(body, "", " ")
	return string(text)
}

// TestForkedConversations regenerates and edits answers and questions of conversations without tools,
// and checks that the provider gets the same cache key with an extension of what it had,
// and that all else of the request is as for a fresh thread.
func TestForkedConversations(t *testing.T) { e2e.OverBoth(t, testForkedConversations) }

func testForkedConversations(t *testing.T) {
	s, fresh := pairOfSites(t, "api_key ann-key ann\napi_key bob-key bob")
	for name, test := range map[string]struct {
		change func(t *testing.T, one *talk)
		shared int  // items that the input shares with the last one's
		other  bool // another key
	}{
		"regenerated": {nil, 7, false},
		"the last question edited": {func(_ *testing.T, one *talk) {
			one.messages[4] = chatMessage{"role": "user", "content": "say: another"}
		}, 6, false},
		"the second question edited": {func(_ *testing.T, one *talk) {
			one.messages = append(one.messages[:2], chatMessage{"role": "user", "content": "say: another"})
		}, 3, false},
		"the first answer regenerated": {func(_ *testing.T, one *talk) { one.messages = one.messages[:1] }, 2, false},
		"an answer edited":             {func(_ *testing.T, one *talk) { one.messages[3]["content"] = "I never said so" }, 4, false},
		"codex was killed": {func(t *testing.T, _ *talk) {
			old := e2e.Codexes(0)
			e2e.Kill(t, "codex")
			e2e.WaitFor(t, "the old codex to end", e2e.AllGone(old))
			s.At(t).WaitReadyAs(e2e.Bearer("ann-key"))
		}, 7, false},
		"the first question edited": {func(_ *testing.T, one *talk) { one.messages[0]["content"] = "say: me first" }, 1, true},
		"other instructions":        {func(_ *testing.T, one *talk) { one.system += " But not now." }, 0, true},
		"another user":              {func(_ *testing.T, one *talk) { one.user = "bob" }, 0, true},
		"with tools":                {func(_ *testing.T, one *talk) { one.plain = false }, 0, true},
	} {
		for _, model := range []string{"gpt-5", "gpt-6-sol"} {
			t.Run(name+" "+model, func(t *testing.T) {
				s, fresh := s.At(t), fresh.At(t)
				one := talk{system: long("You are good at " + name), model: model}
				key := plainTalk(t, s, &one, "say: one", "reason: hm\nsay: two", "say: three")
				before, _ := s.Model.Last()
				if test.change != nil {
					test.change(t, &one)
				}
				sayIn(t, s, &one, true)
				got, _ := s.Model.Last()
				if other := got.PromptCacheKey != key; other != test.other {
					t.Errorf("another key: %t", other)
				}
				mine, theirs := meantBy(got), meantBy(before)
				if len(mine) < test.shared || !slices.Equal(mine[:test.shared], theirs[:test.shared]) {
					t.Errorf("the model was given\n%s\nand before\n%s", strings.Join(mine, "\n"), strings.Join(theirs, "\n"))
				}
				sayIn(t, fresh, &one, false)
				want, _ := fresh.Model.Last()
				if test.other {
					return
				}
				unthought := got
				unthought.Body = withoutReasoning(t, got)
				if got, want := asAsked(t, unthought), asAsked(t, want); got != want {
					t.Errorf("the model was asked\n%s\nnot\n%s", got, want)
				}
			})
		}
	}
}

// withoutReasoning returns the body of a request without the reasoning in it.
func withoutReasoning(t *testing.T, request scriptedmodel.Request) json.RawMessage {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(request.Body, &body); err != nil {
		t.Fatal(err)
	}
	input, _ := body["input"].([]any)
	body["input"] = slices.DeleteFunc(input, func(item any) bool { return item.(map[string]any)["type"] == "reasoning" })
	text, _ := json.Marshal(body)
	return text
}

// TestForkGoesOn checks that a fork is kept and continued, and that its conversation can
// be forked again.
func TestForkGoesOn(t *testing.T) { e2e.OverBoth(t, testForkGoesOn) }

func testForkGoesOn(t *testing.T) {
	s := e2e.NewSite(t, "api_key ann-key ann")
	s.WaitReadyAs(e2e.Bearer("ann-key"))
	one := talk{system: long("You go on.")}
	key := plainTalk(t, s, &one, "say: one", "say: two")
	threads := make(map[string]bool)
	for range 2 { // regenerate, then continue twice
		for i := range 3 {
			message := sayIn(t, s, &one, false)
			request, _ := s.Model.Last()
			threads[request.Metadata["thread_id"]] = true
			if request.PromptCacheKey != key {
				t.Errorf("another key")
			}
			if i < 2 {
				one.messages = append(one.messages, message, chatMessage{"role": "user", "content": fmt.Sprint("say: more ", i)})
			}
		}
	}
	if len(threads) != 2 {
		t.Errorf("%d threads", len(threads))
	}
}

// TestForkedCuts checks that an answer in a fork that the provider cuts is neither doubled
// nor lost, as in other threads.
func TestForkedCuts(t *testing.T) { e2e.OverBoth(t, testForkedCuts) }

func testForkedCuts(t *testing.T) {
	say := func(texts ...string) (output []scriptedmodel.Output) {
		for _, text := range texts {
			output = append(output, scriptedmodel.Say(text))
		}
		return output
	}
	thinkThen := func(text string) []scriptedmodel.Output {
		return []scriptedmodel.Output{scriptedmodel.Reason("hm"), scriptedmodel.Say(text)}
	}
	filter := scriptedmodel.Incomplete{Reason: "content_filter"}
	for name, test := range map[string]struct {
		first   scriptedmodel.Script
		content string
		finish  string // empty: the stream has an error
		goesOn  bool   // over a WebSocket, with retries of the operator's, the first of which Codex makes in silence
	}{
		"before the first output":  {scriptedmodel.Script{Output: say(""), End: scriptedmodel.Cut{}}, "the second attempt", "stop", false},
		"in a message":             {scriptedmodel.Script{Output: say("a beginning"), End: scriptedmodel.Cut{}}, "a beginning", "", false},
		"in a second message":      {scriptedmodel.Script{Output: say("a beginning", "more"), End: scriptedmodel.Cut{}}, "a beginning\n\nmore", "", false},
		"in a message, thought of": {scriptedmodel.Script{Output: thinkThen("a beginning"), End: scriptedmodel.Cut{}}, "a beginning", "", false},
		"behind a message":         {scriptedmodel.Script{Output: say("a beginning"), End: scriptedmodel.Cut{Whole: true}}, "a beginning", "", true},
		"by the filter":            {scriptedmodel.Script{Output: say("a beginning"), End: filter}, "a beginning", "content_filter", true},
	} {
		t.Run(name, func(t *testing.T) {
			// After a cut a site uses HTTP for a while.
			s := e2e.NewSiteWith(t, codexhome.Options{StreamRetries: 2}, "api_key ann-key ann")
			s.WaitReadyAs(e2e.Bearer("ann-key"))
			if test.goesOn && s.Plan == nil && e2e.Transport == scriptedmodel.WebSocket {
				test.content, test.finish = "a beginning\n\nthe second attempt", "stop" // the model goes on after its message
			}
			one := talk{system: long("You are cut " + name)}
			key := plainTalk(t, s, &one, "say: one", "say: two")
			asked := 0
			remove := s.Model.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) {
				if asked++; asked == 1 {
					return test.first, true
				}
				return scriptedmodel.Script{Output: say("the second attempt")}, true
			})
			response, text := s.Post(one.body(true), e2e.Bearer("ann-key"))
			remove()
			message := foldChunks(t, text)
			if response.StatusCode != http.StatusOK || message["content"] != test.content || lastKey(s) != key {
				t.Errorf("%s %q with the key %s, not %q with %s", response.Status, message["content"], lastKey(s), test.content, key)
			}
			if finish := fmt.Sprintf(`"finish_reason":%q`, test.finish); test.finish == "" != strings.Contains(text, `"error"`) || test.finish != "" && !strings.Contains(text, finish) {
				t.Errorf("the stream ended with %q, want %q", text[max(0, len(text)-300):], test.finish)
			}
			// Whatever Codex has kept of it, the model is given what the client has.
			one.messages = append(one.messages, message, chatMessage{"role": "user", "content": "say: and now"})
			sayIn(t, s, &one, false)
			request, _ := s.Model.Last()
			want := []string{"developer: " + one.system}
			for _, m := range one.messages {
				want = append(want, fmt.Sprintf("%s: %s", m["role"], strings.TrimSpace(m["content"].(string))))
			}
			if got := spokenTo(request); !slices.Equal(got, want) && !slices.Equal(got, splitGaps(want)) {
				t.Errorf("the model was given %q, not %q", got, want)
			}
			if request.PromptCacheKey != key {
				t.Error("the next request has another key")
			}
		})
	}
}

// splitGaps splits messages at blank lines, as the model wrote them.
func splitGaps(lines []string) (split []string) {
	for _, line := range lines {
		for i, part := range strings.Split(line, "\n\n") {
			if i > 0 {
				part = "assistant: " + part
			}
			split = append(split, part)
		}
	}
	return split
}

// TestForkCounts checks what gets a fork and how forks are counted.
func TestForkCounts(t *testing.T) {
	s := e2e.NewSite(t, "")
	admin := s.WithAdmin(s.Caddyfile(""))
	s.WaitReady()
	one := talk{system: long("You count.")}
	plainTalk(t, s, &one, "say: one", "say: two")
	sayIn(t, s, &one, true)
	sayIn(t, s, &one, false)
	short := talk{system: "You are not cached."}
	plainTalk(t, s, &short, "say: one")
	sayIn(t, s, &short, true)
	for _, more := range []e2e.Fields{
		{}, // like the first ones, but in the Responses API
		{"include": []string{"reasoning.encrypted_content"}},
		{"tools": []any{e2e.Fields{"type": "function", "name": "find", "parameters": e2e.Fields{"type": "object"}}}},
	} {
		for range 2 {
			plain := len(more) == 0
			request := e2e.Asks("reason: hm\nsay: three", more)
			request["instructions"] = one.system
			r := s.Respond(request, nil)
			if plain && (len(r.Output) != 2 || r.Output[0].Type != "reasoning" || r.Text() != "three") {
				t.Errorf("the response is %+v", r)
			}
		}
	}
	var status struct {
		AppServers []struct {
			Conversations struct{ Forked int }
		} `json:"app_servers"`
	}
	admin.GetJSON("/codex/status", &status)
	if forked := status.AppServers[0].Conversations.Forked; forked != 3 {
		t.Errorf("%d forks", forked)
	}
	if _, text := admin.Get("/metrics"); !strings.Contains(text, `how="forked"} 3`) {
		t.Error("the metrics do not have the forks")
	}
}

// TestForksOverRestarts checks that conversations without tools keep their cache keys when
// Caddy is restarted, also after a kill once they are stored, and that the storage then has none of their text.
func TestForksOverRestarts(t *testing.T) { e2e.OverBoth(t, testForksOverRestarts) }

func testForksOverRestarts(t *testing.T) {
	s := e2e.NewUnstarted(t)
	r := s.RunFile(s.Caddyfile("api_key ann-key ann\napi_key bob-key bob"))
	r.WaitUp()
	one := talk{system: long("PRIVATE instructions.")}
	key := plainTalk(t, s, &one, "say: PRIVATE one", "say: two")
	r.End()
	r.Start() // and it is killed, which does not lose what was stored
	pids := e2e.Codexes(r.Cmd.Process.Pid)
	if err := r.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = r.Wait() // the error is that it was killed
	e2e.WaitFor(t, "codex to end", e2e.AllGone(pids))
	for _, change := range []struct {
		name   string
		change func()
		forked bool
	}{
		{"regenerated", func() {}, true},
		{"another user", func() { one.user = "bob" }, false},
		{"continued", func() {
			one.user = "ann"
			one.messages = append(one.messages, chatMessage{"role": "assistant", "content": "two"}, chatMessage{"role": "user", "content": "say: three"})
		}, true},
	} {
		r.Start()
		change.change()
		sayIn(t, s, &one, true)
		if got, _ := s.Model.Last(); isFork(got) != change.forked || got.PromptCacheKey == key != change.forked {
			t.Errorf("%s: a fork: %t, with the same key: %t", change.name, isFork(got), got.PromptCacheKey == key)
		}
		r.End()
		log := r.Log.String()
		turn := log[max(0, strings.LastIndex(log, `"msg":"turn"`)):]
		if strings.Contains(turn, `"thread":"forked"`) != change.forked {
			t.Errorf("%s: the last turn in the log is %.500s", change.name, turn)
		}
	}
	files, err := filepath.Glob(filepath.Join(r.Dir, "caddy", "codex", "conversations", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	stored, err := os.ReadFile(files[0])
	if err != nil || strings.Contains(string(stored), "PRIVATE") {
		t.Errorf("stored: %q, %v", stored, err)
	}
}
