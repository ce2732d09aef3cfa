package conversations

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
	"github.com/caddy-codex/caddy-codex/internal/test/draw"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// pairOfSites starts one Caddy with two sites for one model, of which only one keeps conversations.
func pairOfSites(t *testing.T, options string) (kept, fresh *e2e.Site) {
	t.Helper()
	kept = e2e.NewSite(t, "")
	fresh = kept.Node()
	kept.Load(kept.Caddyfile(options) + strings.TrimPrefix(fresh.Caddyfile("conversations off\n"+options), "{\nadmin off\npersist_config off\nauto_https off\n}\n"))
	kept.WaitReadyAs(e2e.Bearer("ann-key"))
	fresh.WaitReadyAs(e2e.Bearer("ann-key"))
	return kept, fresh
}

// spokenTo returns a request in a form that does not depend on the thread: calls numbered,
// arguments normalised, results in the calls' order, as Codex sorts them, no reasoning.
func spokenTo(request scriptedmodel.Request) []string {
	numbers := make(map[string]int)
	var lines []string
	for _, item := range request.Input {
		switch item.Type {
		case "message":
			lines = append(lines, item.Role+": "+strings.TrimSpace(e2e.ContentText(item.Content)))
		case "function_call":
			numbers[item.CallID] = len(numbers)
			var arguments any
			_ = json.Unmarshal([]byte(item.Arguments), &arguments)
			spelled, _ := json.Marshal(arguments)
			lines = append(lines, fmt.Sprintf("call %d %s(%s)", numbers[item.CallID], item.Name, spelled))
		case "function_call_output":
			lines = append(lines, fmt.Sprintf("output %03d %s", numbers[item.CallID], e2e.ContentText(item.Output)))
		case "reasoning":
		default:
			lines = append(lines, item.Type)
		}
	}
	for i := range lines {
		for k := i; k > 0 && isOutput(lines[k]) && isOutput(lines[k-1]) && lines[k] < lines[k-1]; k-- {
			lines[k], lines[k-1] = lines[k-1], lines[k]
		}
	}
	return lines
}

func isOutput(line string) bool { return strings.HasPrefix(line, "output ") }

type chatMessage map[string]any

// talk is a conversation as its client has it.
type talk struct {
	user     string
	system   string
	model    string // the default is gpt-5
	plain    bool   // its requests have no tools
	messages []chatMessage
}

func (t talk) clone() talk {
	t.messages = slices.Clone(t.messages)
	return t
}

func (t *talk) body(stream bool) string {
	messages := append([]chatMessage{{"role": "system", "content": t.system}}, t.messages...)
	request := map[string]any{"model": cmp.Or(t.model, "gpt-5"), "messages": messages, "stream": stream}
	if !t.plain {
		request["tools"] = []any{map[string]any{"type": "function", "function": map[string]any{"name": "find", "parameters": map[string]any{"type": "object"}}}}
	}
	body, _ := json.Marshal(request)
	return string(body)
}

// plainPrompts is how many of the prompts, the first ones, call no tools.
const plainPrompts = 2

// prompts are messages of users, with directives of the scripted model.
var prompts = []string{
	"say: one %d",
	"reason: hm %d\nsay:   two %d  ",
	"say: look\ntool: find {\"q\": %d, \"z\": [1.50, {\"b\": null, \"a\": true}]}\nthen\nsay: found %d",
	"tool: find {\"q\": %d}\ntool: find {\"q\": %d}\nthen\nreason: again\ntool: find {}\nthen\nsay: done",
	"callid=same\ntool: find {\"q\": %d}\nthen\nsay: once %d",
}

// returned returns an answer as some client sends it back.
func returned(random *rand.Rand, message chatMessage) chatMessage {
	message = maps.Clone(message)
	if text, ok := message["content"].(string); ok && random.IntN(2) == 0 {
		message["content"] = strings.TrimSpace(text)
		if random.IntN(3) == 0 {
			message["content"] = []any{map[string]any{"type": "text", "text": message["content"]}}
		}
	}
	if message["content"] == nil && random.IntN(2) == 0 {
		message["content"] = ""
	}
	if random.IntN(2) == 0 {
		delete(message, "reasoning_content")
	}
	calls, _ := message["tool_calls"].([]any)
	rename := random.IntN(3) == 0
	for i, call := range calls {
		fields := maps.Clone(call.(map[string]any))
		function := maps.Clone(fields["function"].(map[string]any))
		fields["function"] = function
		if rename {
			fields["id"] = fmt.Sprintf("renamed_%d_%d", random.Int(), i)
		}
		var arguments any
		if json.Unmarshal([]byte(function["arguments"].(string)), &arguments) == nil && random.IntN(2) == 0 {
			spelled, _ := json.MarshalIndent(arguments, "", " ")
			function["arguments"] = string(spelled)
		}
		calls[i] = fields
	}
	return message
}

// goOn adds an answer and the client's next message: results in any order, or a question.
func (t *talk) goOn(random *rand.Rand, message chatMessage) {
	message = returned(random, message)
	t.messages = append(t.messages, message)
	calls, _ := message["tool_calls"].([]any)
	if len(calls) == 0 {
		t.ask(random)
		return
	}
	for _, i := range random.Perm(len(calls)) {
		result := fmt.Sprintf("result %d of %d", i, random.IntN(3))
		if random.IntN(10) == 0 {
			result = strings.Repeat("long ", 20_000)
		}
		t.messages = append(t.messages, chatMessage{"role": "tool", "tool_call_id": calls[i].(map[string]any)["id"], "content": result})
	}
	switch random.IntN(8) {
	case 0:
		t.ask(random)
	case 1:
		t.messages = append(t.messages, chatMessage{"role": "developer", "content": "be brief"})
	}
}

func (t *talk) ask(random *rand.Rand) {
	prompt := prompts[random.IntN(len(prompts))]
	if t.plain {
		prompt = prompts[random.IntN(plainPrompts)]
	}
	prompt = strings.ReplaceAll(prompt, "%d", fmt.Sprint(random.IntN(4)))
	t.messages = append(t.messages, chatMessage{"role": "user", "content": prompt})
}

// minds checks the reasoning in requests to the model.
type minds struct {
	asked map[int]mind   // by the number of the request
	first map[string]int // the number of the first request in a thread, by the key of the thread
	given int            // items of reasoning in requests of kept threads
}

// mind is the request that some reasoning answers.
type mind struct {
	user  string
	lines []string
}

// learn records a user's new requests: those whose client has left may have been answered.
func (m *minds) learn(user string, requests []scriptedmodel.Request) {
	for _, request := range requests {
		if _, known := m.asked[request.Number]; !known {
			m.asked[request.Number] = mind{user, spokenTo(request)}
			m.first[request.PromptCacheKey] = cmp.Or(m.first[request.PromptCacheKey], request.Number)
		}
	}
}

// check checks that each item of reasoning was thought for the same user, as a part of
// the answer in which it stands, and that a fresh thread has none.
func (m *minds) check(t *testing.T, user string, request scriptedmodel.Request) {
	t.Helper()
	for i, item := range request.Input {
		if item.Type != "reasoning" {
			continue
		}
		if m.first[request.PromptCacheKey] == request.Number {
			t.Fatal("a fresh thread got reasoning")
		}
		var number, index int
		if _, err := fmt.Sscanf(item.EncryptedContent, "scripted rs_%d_%d", &number, &index); err != nil {
			t.Fatalf("the model was given the reasoning %q: %v", item.EncryptedContent, err)
		}
		before := request
		before.Input = request.Input[:i]
		lines, of := spokenTo(before), m.asked[number]
		rest := lines[min(len(lines), len(of.lines)):]
		if of.user != user || !slices.Equal(lines[:len(lines)-len(rest)], of.lines) || slices.ContainsFunc(rest, func(line string) bool {
			return !strings.HasPrefix(line, "assistant: ") && !strings.HasPrefix(line, "call ")
		}) {
			t.Fatalf("%s got reasoning of %s behind\n%s\nthat was behind\n%s", user, of.user, strings.Join(lines, "\n"), strings.Join(of.lines, "\n"))
		}
		m.given++
	}
}

// TestRandomConversations continues, edits, regenerates, leaves and interleaves conversations of
// two users, and checks that the model gets the same as with a new thread for each
// request, except for its own reasoning, which is that of the same answers.
func TestRandomConversations(t *testing.T) {
	e2e.OverBothSampled(t, testRandomConversations)
}

func testRandomConversations(t *testing.T, all bool) {
	kept, fresh := pairOfSites(t, "api_key ann-key ann\napi_key bob-key bob")
	random := rand.New(rand.NewPCG(7, 11))
	var talks []talk
	begin := func() talk {
		one := talk{user: []string{"ann", "bob"}[random.IntN(2)], system: fmt.Sprintf("You are %d.", random.IntN(2)), plain: random.IntN(2) == 0}
		one.ask(random)
		return one
	}
	thoughts := minds{asked: make(map[int]mind), first: make(map[string]int)}
	keys, users, requests := make(map[string]int), make(map[string]string), 0
	steps := 15
	if all {
		steps = draw.Cases(30, 80)
	}
	for range steps {
		one := begin()
		if len(talks) > 0 && random.IntN(6) > 0 {
			one = talks[max(0, len(talks)-1-random.IntN(4))].clone()
		}
		for random.IntN(4) == 0 {
			sayAndLeave(t, kept, &one, random.IntN(3000))
		}
		message := sayIn(t, kept, &one, random.IntN(2) == 0)
		mine, _ := kept.Model.Last()
		thoughts.learn(one.user, kept.Model.Requests())
		sayIn(t, fresh, &one, false)
		theirs, _ := fresh.Model.Last()
		if got, want := spokenTo(mine), spokenTo(theirs); !slices.Equal(got, want) {
			t.Fatalf("the model was given\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if user := users[mine.PromptCacheKey]; user != "" && user != one.user {
			t.Fatalf("%s was answered in a thread of %s", one.user, user)
		}
		thoughts.check(t, one.user, mine)
		users[mine.PromptCacheKey] = one.user
		keys[mine.PromptCacheKey]++
		requests++
		if random.IntN(4) > 0 {
			one.goOn(random, message)
			talks = append(talks, one)
		}
	}
	if thoughts.given == 0 {
		t.Error("no kept thread had reasoning")
	}
	if hits := requests - len(keys); hits < requests/5 {
		t.Errorf("%d of %d requests went on in a thread", hits, requests)
	}
}

// sayIn sends a conversation and returns the message of the answer.
func sayIn(t *testing.T, s *e2e.Site, one *talk, stream bool) chatMessage {
	t.Helper()
	response, text := s.Post(one.body(stream), e2e.Bearer(one.user+"-key"))
	if response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, text, one.body(stream))
	}
	if stream {
		return foldChunks(t, text)
	}
	var answer struct {
		Choices []struct{ Message chatMessage }
	}
	must.OK(t, json.Unmarshal([]byte(text), &answer))
	return answer.Choices[0].Message
}

func sayAndLeave(t *testing.T, s *e2e.Site, one *talk, after int) {
	t.Helper()
	response := s.Do(http.MethodPost, "/v1/chat/completions", strings.NewReader(one.body(true)), e2e.Bearer(one.user+"-key"))
	if _, err := io.CopyN(io.Discard, response.Body, int64(after)); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	must.OK(t, response.Body.Close())
}

// foldChunks joins the chunks of a stream to a message.
func foldChunks(t *testing.T, stream string) chatMessage {
	t.Helper()
	answer, err := apiclient.Read([]byte(stream), apiclient.Chat, true, 1)
	must.OK(t, err)
	message := chatMessage{"role": "assistant", "content": nil}
	if text := answer.Choices[0].Text; text != "" {
		message["content"] = text
	}
	var calls []any
	for _, call := range answer.Choices[0].Calls {
		calls = append(calls, map[string]any{"id": call.ID, "type": "function", "function": map[string]any{"name": call.Name, "arguments": call.Arguments}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return message
}
