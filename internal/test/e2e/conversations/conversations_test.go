package conversations

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestConversation: three turns, each with three rounds of calls, are one growing conversation.
func TestConversation(t *testing.T) { e2e.OverBoth(t, testConversation) }

func testConversation(t *testing.T) {
	s := e2e.NewSite(t, "")
	tools := []openai.ChatCompletionToolUnionParam{e2e.SearchTool("find")}
	messages := []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("You are an agent.")}
	var heard []string
	for turn := range 3 {
		messages = append(messages, openai.UserMessage(fmt.Sprintf(`reason: turn %d
say: I look.
tool: find {"q": "a"}
tool: find {"q":  "b"}
then
tool: find {"q": "c"}
then
reason: more
tool: find {"q": "d"}
then
say: Done with %d.`, turn, turn)))
		for range 4 {
			answer, err := s.NewCompletion(openai.ChatCompletionNewParams{Model: "gpt-5", Messages: messages, Tools: tools})
			must.OK(t, err)
			message := answer.Choices[0].Message
			messages = append(messages, message.ToParam())
			if answer.Usage.PromptTokens != int64(scriptedmodel.DefaultUsage.Input) {
				t.Errorf("the usage is %+v", answer.Usage)
			}
			heard = append(heard, message.Content)
			for i, call := range message.ToolCalls {
				messages = append(messages, openai.ToolMessage(fmt.Sprintf("result %d of %s", i, call.Function.Arguments), call.ID))
			}
		}
	}
	if want := strings.Repeat("I look.|||Done with %d.|", 3); strings.Join(heard, "|")+"|" != fmt.Sprintf(want, 0, 1, 2) {
		t.Errorf("heard %q", heard)
	}
	all := s.Prompts()
	if len(all) != 12 {
		t.Fatalf("the model was asked %d times", len(all))
	}
	for i, one := range all[1:] {
		if one.Key != all[0].Key {
			t.Errorf("request %d has another cache key", i+1)
		}
		if err := one.Extends(all[i]); err != nil {
			t.Errorf("request %d %v", i+1, err)
		}
	}
	last := describeAll(all[11].Input)
	for _, want := range []string{`"output":"result 1 of {\"q\":  \"b\"}"`, `"encrypted_content"`} {
		if !strings.Contains(last, want) {
			t.Errorf("the model was not given %s in\n%s", want, last)
		}
	}
}

func describeAll(input []json.RawMessage) string {
	var lines strings.Builder
	for _, item := range input {
		lines.Write(item)
		lines.WriteByte('\n')
	}
	return lines.String()
}

// TestKeptThreadsAreBounded: by an app-server's own count, threads above the limit are unloaded,
// the oldest of the user who has the most, and after their time, all.
func TestKeptThreadsAreBounded(t *testing.T) {
	s, codex := e2e.NewUnstarted(t), newLoggedCodex(t)
	options := func(limits string) string {
		return "api_key ann-key ann\napi_key bob-key bob\n" + codex.appServer(s, "conversations {\n"+limits+"\n}")
	}
	limit := func(limits string) {
		s.Load(s.Caddyfile(options(limits)))
		s.WaitReadyAs(e2e.Bearer("ann-key"))
	}
	s.Serve(options("max 3"))
	s.WaitReadyAs(e2e.Bearer("ann-key"))
	loaded := codex.waitThreads
	begin := func(user string, number int) (one talk, key string) {
		one = talk{user: user, system: fmt.Sprint("Talk ", number), messages: []chatMessage{{"role": "user", "content": "say: hello"}}}
		one.messages = append(one.messages, sayIn(t, s, &one, false), chatMessage{"role": "user", "content": "say: again"})
		return one, lastKey(s)
	}
	goesOn := func(one *talk, key string, want bool) {
		t.Helper()
		if sayIn(t, s, one, false); (lastKey(s) == key) != want {
			t.Errorf("%s of %s went on: %t", one.system, one.user, !want)
		}
	}
	bobs, bobsKey := begin("bob", 0)
	loaded(1)
	var talks []talk
	var keys []string
	for i := range 5 {
		one, key := begin("ann", i+1)
		talks, keys = append(talks, one), append(keys, key)
		loaded(min(3, int64(i)+2))
	}
	goesOn(&bobs, bobsKey, true)      // though it was the oldest
	goesOn(&talks[4], keys[4], true)  // the newest
	goesOn(&talks[0], keys[0], false) // let go of
	limit("max 1\nidle 1s")
	goesOn(&talks[2], keys[2], false)
	loaded(2) // spare threads: of the two that began once more
	limit("max 3")
	begin("ann", 9)
	loaded(3)
	s.Load(s.Caddyfile("api_key ann-key ann\n" + codex.appServer(s, "conversations off")))
	loaded(0)
}

// loggedCodex is a codex whose output, such as answers to probes every two seconds, is in a file.
type loggedCodex struct {
	t            *testing.T
	program, log string
}

func newLoggedCodex(t *testing.T) *loggedCodex {
	t.Helper()
	c := &loggedCodex{t: t, program: filepath.Join(t.TempDir(), "codex"), log: filepath.Join(t.TempDir(), "log")}
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = app-server ] || exec %[1]s \"$@\"\n%[1]s \"$@\" | tee -a %[2]s\n", e2e.CodexBinary, c.log)
	e2e.WriteFile(t, c.program, script)
	must.OK(t, os.Chmod(c.program, 0o700))
	return c
}

func (c *loggedCodex) appServer(s *e2e.Site, options string) string {
	return fmt.Sprintf("app_server %s app-server {\nhome %s\n%s\n}", c.program, s.Home, options)
}

// threadCounts returns the number of threads in codex at each probe so far.
func (c *loggedCodex) threadCounts() (counts []int64) {
	for line := range strings.Lines(e2e.ReadFile(c.t, c.log)) {
		if count := gjson.Get(line, `result.gauges.#(name=="core.threads.live").value`); count.Exists() {
			counts = append(counts, count.Int())
		}
	}
	return counts
}

// waitThreads waits until codex has n threads.
func (c *loggedCodex) waitThreads(n int64) {
	c.t.Helper()
	before := len(c.threadCounts())
	e2e.WaitFor(c.t, fmt.Sprintf("%d threads in codex", n), func() bool {
		return slices.Contains(c.threadCounts()[before:], n)
	})
}

// TestFallbacks checks that requests whose thread is gone are counted, once each, with the reason.
func TestFallbacks(t *testing.T) {
	s := e2e.NewSite(t, "")
	admin := s.WithAdmin(s.Caddyfile("app_server " + e2e.CodexBinary + " app-server {\nhome " + s.Home + "\nconversations {\nmax 1\n}\n}"))
	s.WaitReady()
	fallbacks := func() map[string]int { return admin.Status().AppServers[0].Conversations.Fallbacks }
	first, _ := calling(t, s, "ann")
	second := talk{user: "ann", system: "Another.", messages: []chatMessage{{"role": "user", "content": twoCalls}}}
	second.answerResults(sayIn(t, s, &second, false))
	sayIn(t, s, &second, false) // which waits until its thread is kept
	for range 2 {
		sayIn(t, s, &first, false) // its thread is gone
	}
	if got, want := fallbacks(), map[string]int{"evicted": 1}; !maps.Equal(got, want) {
		t.Errorf("the fallbacks are %v, want %v", got, want)
	}
	first, _ = calling(t, s, "ann")
	e2e.WaitFor(t, "the thread to be kept", func() bool { return admin.Status().AppServers[0].Conversations.Parked == 1 })
	old := e2e.Codexes(0)
	e2e.Kill(t, "codex")
	e2e.WaitFor(t, "the old codex to end", e2e.AllGone(old))
	s.WaitReady()
	sayIn(t, s, &first, false)
	if got, want := fallbacks(), map[string]int{"evicted": 1, "process_ended": 1}; !maps.Equal(got, want) {
		t.Errorf("the fallbacks are %v, want %v", got, want)
	}
	if _, text := admin.Get("/metrics"); !strings.Contains(text, `reason="process_ended"} 1`) {
		t.Error("the metrics do not have the reason")
	}
}

// TestFollowUpsAtOnce: many conversations, each of which sends its next request at the end of the
// answer, go on in their threads, though Codex may not yet have completed the turn.
func TestFollowUpsAtOnce(t *testing.T) {
	s := e2e.NewSite(t, "")
	const talks, turns = 12, 6
	var all sync.WaitGroup
	for i := range talks {
		all.Go(func() {
			params := e2e.UserSays("")
			params.Messages = nil
			params.Tools = []openai.ChatCompletionToolUnionParam{e2e.SearchTool("localSearch")}
			for turn := range turns {
				prompt := fmt.Sprintf("say:answer %d in talk %d.", turn, i)
				if turn%3 == 1 {
					prompt += `; tool:localSearch {"query":"a"}; then; say:Found.`
				}
				params.Messages = append(params.Messages, openai.UserMessage(prompt))
				if err := streamTurn(s, &params); err != nil {
					t.Errorf("talk %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	threads := make(map[string]bool)
	for _, one := range s.Prompts() {
		threads[one.Key] = true
	}
	// A busy machine may take longer than a request waits.
	const tolerated = 8
	if len(threads) > talks+tolerated {
		t.Errorf("%d conversations took %d threads", talks, len(threads))
	}
}

// streamTurn streams answers, and answers their calls, until there are none.
func streamTurn(s *e2e.Site, params *openai.ChatCompletionNewParams) error {
	for {
		answer, err := s.NewStreaming(*params)
		if err != nil {
			return err
		}
		message := answer.Choices[0].Message
		params.Messages = append(params.Messages, message.ToParam())
		if len(message.ToolCalls) == 0 {
			return nil
		}
		for _, call := range message.ToolCalls {
			params.Messages = append(params.Messages, openai.ToolMessage("found: "+strings.ToUpper(call.Function.Arguments), call.ID))
		}
	}
}

// TestAnotherEffort checks that a conversation stays in its thread when its effort changes, if the
// model takes that: the provider gets the same cache key, the new effort and, over a WebSocket,
// only what is new. With another model the conversation goes to another thread.
func TestAnotherEffort(t *testing.T) { e2e.OverBoth(t, testAnotherEffort) }

func testAnotherEffort(t *testing.T) {
	for model, stays := range map[string]bool{"gpt-6.1-sol": true, "gpt-6-sol": false} {
		t.Run(model, func(t *testing.T) {
			s := e2e.NewSite(t, "")
			tools := []openai.ChatCompletionToolUnionParam{e2e.SearchTool("find")}
			messages := []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("You are brief.")}
			efforts := []string{"low", "high", "high", "low"}
			for _, effort := range efforts {
				messages = append(messages, openai.UserMessage("say:done with "+effort))
				answer, err := s.NewCompletion(openai.ChatCompletionNewParams{
					Model: model, Messages: messages, Tools: tools, ReasoningEffort: shared.ReasoningEffort(effort),
				})
				must.OK(t, err)
				messages = append(messages, answer.Choices[0].Message.ToParam())
			}
			requests, prompts := s.Model.Requests(), s.Prompts()
			if len(requests) != len(efforts) {
				t.Fatalf("the model was asked %d times", len(requests))
			}
			for i := range requests {
				if got := e2e.EffortOf(t, requests[i].Reasoning.Effort, prompts[i].Input); got != efforts[i] {
					t.Errorf("request %d has the effort %q", i, got)
				}
				if i == 0 {
					continue
				}
				kept := stays || efforts[i] == efforts[i-1]
				if same := prompts[i].Key == prompts[i-1].Key; same != kept {
					t.Errorf("request %d: the cache key is the same: %t", i, same)
				}
				if e2e.Transport == scriptedmodel.WebSocket && kept && requests[i].PreviousResponseID == "" {
					t.Errorf("request %d was sent as a whole", i)
				}
				if err := prompts[i].Extends(prompts[i-1]); kept && err != nil {
					t.Errorf("request %d %v", i, err)
				}
			}
		})
	}
}

// TestAnotherEffortWhileParked: results reach the model also with another effort than the turn has.
func TestAnotherEffortWhileParked(t *testing.T) { e2e.OverBoth(t, testAnotherEffortWhileParked) }

func testAnotherEffortWhileParked(t *testing.T) {
	s := e2e.NewSite(t, "")
	ask := func(effort string, messages ...openai.ChatCompletionMessageParamUnion) openai.ChatCompletionMessage {
		answer, err := s.NewCompletion(openai.ChatCompletionNewParams{
			Model: "gpt-6.1-sol", Messages: messages, ReasoningEffort: shared.ReasoningEffort(effort),
			Tools: []openai.ChatCompletionToolUnionParam{e2e.SearchTool("find")},
		})
		must.OK(t, err)
		return answer.Choices[0].Message
	}
	question := openai.UserMessage("tool: find {}\nthen\nsay: Found.")
	called := ask("low", question)
	if len(called.ToolCalls) != 1 {
		t.Fatalf("got %+v", called)
	}
	if end := ask("high", question, called.ToParam(), openai.ToolMessage("here", called.ToolCalls[0].ID)); end.Content != "Found." {
		t.Errorf("got %+v", end)
	}
	requests, prompts := s.Model.Requests(), s.Prompts()
	if last := len(requests) - 1; last != 1 || e2e.EffortOf(t, requests[last].Reasoning.Effort, prompts[last].Input) != "high" {
		t.Errorf("the model was asked %d times, in the end %s", len(requests), requests[last].Body)
	}
}

// manyParked and fewParked are how many turns wait at the same time.
const manyParked, fewParked = 25, 10

// TestManyParkedTurns parks many turns, reloads Caddy or kills codex, and sends the
// results. After a reload all turns go on; after a kill all conversations go on in
// fresh threads. Each client gets its own answer, and the model is asked once for each.
func TestManyParkedTurns(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, s *e2e.Site){
		"reload": func(t *testing.T, s *e2e.Site) { s.Load(s.Caddyfile("api_key ann-key ann\nmax_concurrent 9")) },
		"kill":   func(t *testing.T, s *e2e.Site) { e2e.Kill(t, "codex") }, // and nobody waits for the next one
	} {
		t.Run(name, func(t *testing.T) {
			e2e.OverBothSampled(t, func(t *testing.T, all bool) {
				parked := fewParked
				if all {
					parked = manyParked
				}
				testManyParkedTurns(t, parked, name == "reload", meanwhile)
			})
		})
	}
}

func testManyParkedTurns(t *testing.T, parked int, resumed bool, meanwhile func(*testing.T, *e2e.Site)) {
	s := e2e.NewSite(t, "api_key ann-key ann")
	s.WaitReadyAs(e2e.Bearer("ann-key"))
	var mu sync.Mutex
	asked := make(map[string][]scriptedmodel.Request) // by the question
	defer s.Model.On(func(request scriptedmodel.Request) (scriptedmodel.Script, bool) {
		at := slices.IndexFunc(request.Input, func(item scriptedmodel.Item) bool { return item.Role == "user" })
		question := request.Input[at].Content.String()
		mu.Lock()
		defer mu.Unlock()
		asked[question] = append(asked[question], request)
		return scriptedmodel.Script{}, false
	})()
	talks := make([]talk, parked)
	sideBySide(parked, func(i int) {
		one := talk{user: "ann", system: fmt.Sprint("Talk ", i), messages: []chatMessage{
			{"role": "user", "content": fmt.Sprintf("reason: hm\ntool: find {\"q\": %d}\nthen\nsay: end of %d", i, i)}}}
		message := sayIn(t, s, &one, i%2 == 0)
		call, _ := message["tool_calls"].([]any)[0].(map[string]any)
		one.messages = append(one.messages, message, chatMessage{"role": "tool", "tool_call_id": call["id"], "content": fmt.Sprint("result ", i)})
		talks[i] = one
	})
	meanwhile(t, s)
	sideBySide(parked, func(i int) {
		message := sayIn(t, s, &talks[i], i%2 == 0)
		if got, want := message["content"], fmt.Sprint("end of ", i); got != want {
			t.Errorf("talk %d was answered with %q", i, got)
		}
	})
	for i := range talks {
		question := talks[i].messages[0]["content"].(string)
		requests := asked[question]
		if len(requests) != 2 {
			t.Fatalf("the model was asked %d times in talk %d", len(requests), i)
		}
		if same := requests[0].PromptCacheKey == requests[1].PromptCacheKey; same != resumed {
			t.Errorf("talk %d went on in its thread: %t", i, same)
		}
		want := append(spokenTo(requests[0]), fmt.Sprintf("call 0 find({\"q\":%d})", i), fmt.Sprint("output 000 result ", i))
		if n := len(thoughtsIn(requests[1])); (n == 1) != resumed || n > 1 {
			t.Errorf("the model was given %d items of reasoning", n)
		}
		if got := spokenTo(requests[1]); !slices.Equal(got, want) {
			t.Errorf("the model was given\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// sideBySide calls f with each number below n, eight at a time.
func sideBySide(n int, f func(i int)) {
	var all sync.WaitGroup
	places := make(chan struct{}, 8)
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			f(i)
		})
	}
	all.Wait()
}

// spareSite returns a site for two users, and what says what became of its threads.
func spareSite(t *testing.T) (s *e2e.Site, stats func() status.Conversations) {
	s = e2e.NewSite(t, "")
	admin := s.WithAdmin(s.Caddyfile("api_key ann-key ann\napi_key bob-key bob\napp_server " + e2e.CodexBinary + " app-server {\nhome " + s.Home + "\n}"))
	s.WaitReadyAs(e2e.Bearer("ann-key"))
	return s, func() status.Conversations { return admin.Status().AppServers[0].Conversations }
}

// TestSpareThreads: later conversations of two users get threads started before, in which the model
// reads the same as in others, and nothing of another conversation.
func TestSpareThreads(t *testing.T) { e2e.OverBoth(t, testSpareThreads) }

func testSpareThreads(t *testing.T) {
	s, stats := spareSite(t)
	var requests []scriptedmodel.Request
	var talks []talk
	for i := range 6 {
		one := talk{user: []string{"ann", "bob"}[i%2], system: "You are short.", messages: []chatMessage{
			{"role": "user", "content": fmt.Sprintf("the secret of %d", i)}, {"role": "assistant", "content": fmt.Sprintf("is %d", i*i)},
			{"role": "user", "content": fmt.Sprintf("say: hello %d", i)},
		}}
		if i == 5 {
			one.messages = one.messages[2:]
		}
		message := sayIn(t, s, &one, i%2 == 0)
		if message["content"] != fmt.Sprint("hello ", i) {
			t.Errorf("%d was answered with %q", i, message)
		}
		request, _ := s.Model.Last()
		requests, talks = append(requests, request), append(talks, one)
		talks[i].messages = append(talks[i].messages, message, chatMessage{"role": "user", "content": "say: again"})
		if i > 0 {
			e2e.WaitFor(t, "a spare thread", func() bool { return stats().Spare == 1 })
		}
	}
	if got := stats(); got.Prepared != 4 {
		t.Errorf("%d requests got a spare thread, want 4: %+v", got.Prepared, got)
	}
	keys := make(map[string]bool)
	for i, request := range requests {
		keys[request.PromptCacheKey] = true
		want := slices.Clone(spokenTo(requests[0]))
		for j := range want {
			want[j] = strings.NewReplacer("of 0", fmt.Sprint("of ", i), "is 0", fmt.Sprint("is ", i*i), "hello 0", fmt.Sprint("hello ", i)).Replace(want[j])
		}
		if i == 5 {
			want = slices.DeleteFunc(want, func(line string) bool { return strings.Contains(line, "of 5") || strings.Contains(line, "is 25") })
		}
		if got := spokenTo(request); !slices.Equal(got, want) {
			t.Errorf("%d: the model was given\n%s\nwant\n%s", i, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		e2e.CheckNothingOfTheHost(t, request)
	}
	if len(keys) != len(requests) {
		t.Errorf("%d conversations have %d cache keys", len(requests), len(keys))
	}
	for i := range talks {
		if sayIn(t, s, &talks[i], false); lastKey(s) != requests[i].PromptCacheKey {
			t.Errorf("%d did not go on in its thread", i)
		}
	}
}

// TestSpareThreadIsGone: a request is answered though a spare thread's app-server and model ended.
func TestSpareThreadIsGone(t *testing.T) { e2e.OverBoth(t, testSpareThreadIsGone) }

func testSpareThreadIsGone(t *testing.T) {
	s, stats := spareSite(t)
	begin := func(n int) {
		t.Helper()
		one := talk{user: "ann", system: "You are short.", messages: []chatMessage{{"role": "user", "content": fmt.Sprint("say: answer ", n)}}}
		if message := sayIn(t, s, &one, true); message["content"] != fmt.Sprint("answer ", n) {
			t.Errorf("%d was answered with %q", n, message)
		}
	}
	wait := func() {
		t.Helper()
		e2e.WaitFor(t, "a spare thread", func() bool { return stats().Spare > 0 })
	}
	begin(0)
	begin(1)
	wait()
	s.Model.CutSockets()
	begin(2)
	wait()
	e2e.Kill(t, "codex")
	e2e.WaitFor(t, "another app-server", func() bool { got := stats(); return got.Spare == 0 && got.Kept == 0 })
	begin(3)
	begin(4)
	if got := stats(); got.Prepared < 1 {
		t.Errorf("no request got a spare thread: %+v", got)
	}
}
