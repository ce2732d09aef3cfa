package messages

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/messagecheck"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }

// tool is a function as Anthropic's clients declare it.
func tool(name string) e2e.Fields {
	return e2e.Fields{"name": name, "description": "Does " + name, "input_schema": e2e.Fields{"type": "object", "properties": e2e.Fields{"q": e2e.Fields{"type": "string"}}}}
}

// texts returns the texts of a message, a line for each block of another type.
func texts(m *messagecheck.Message) string {
	var all []string
	for _, b := range m.Content {
		if b.Type == "text" {
			all = append(all, b.Text)
		} else {
			all = append(all, "<"+b.Type+" "+b.Name+b.Thinking+">")
		}
	}
	return strings.Join(all, "\n")
}

// TestMessages: an answer with every kind of block, streamed and whole, over both transports.
func TestMessages(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		e2e.EachWay(t, s, func(t *testing.T, s *e2e.Site, stream bool) {
			m := s.Message(e2e.MessageBody("reason:Hm.; say:Let me look.; tool:2 f {\"q\":\"%d\"}", e2e.Fields{
				"stream": stream, "tools": []any{tool("f")}, "thinking": e2e.Fields{"type": "adaptive"},
			}))
			if got := texts(m); got != "<thinking Hm.>\nLet me look.\n<tool_use f>\n<tool_use f>" || m.StopReason != "tool_use" || m.Content[0].Signature == "" {
				t.Errorf("%s, %+v", got, m)
			}
			u := m.Usage
			if *u.Input+*u.CacheRead+*u.CacheWrite != 123 || *u.CacheRead != 23 || *u.Output != 45 {
				t.Errorf("the usage %d %d %d %d", *u.Input, *u.CacheWrite, *u.CacheRead, *u.Output)
			}
			if m := s.Message(e2e.MessageBody("Hi", e2e.Fields{"stream": stream, "max_tokens": 1})); m.StopReason != "max_tokens" {
				t.Errorf("%+v", m)
			}
			if m := s.Message(e2e.MessageBody("say:one END two", e2e.Fields{"stream": stream, "stop_sequences": []string{"END"}})); texts(m) != "one " || m.StopReason != "stop_sequence" || *m.StopSequence != "END" {
				t.Errorf("%+v", m)
			}
			if m := s.Message(e2e.MessageBody("say:no; incomplete:content_filter", e2e.Fields{"stream": stream})); m.StopReason != "refusal" {
				t.Errorf("%+v", m)
			}
		})
	})
}

// TestModels: the list for Anthropic's clients.
func TestModels(t *testing.T) {
	s := e2e.NewSite(t, "model claude-haiku* default low")
	version := http.Header{"Anthropic-Version": {e2e.AnthropicVersion}}
	if _, text := s.Call(http.MethodGet, "/v1/models?limit=1", nil, version); !strings.Contains(text, `{"data":[{"type":"model","id":"`) || !strings.Contains(text, `"has_more":true`) {
		t.Error(text)
	}
	if _, text := s.Call(http.MethodGet, "/v1/models/claude-opus-5-5", nil, version); !strings.Contains(text, `{"type":"model","id":"claude-opus-5-5"`) {
		t.Error(text)
	}
	response, text := s.Call(http.MethodGet, "/v1/models/x", nil, version)
	if response.StatusCode != http.StatusNotFound || !strings.Contains(text, `{"type":"error","error":{"type":"not_found_error"`) || !strings.Contains(text, response.Header.Get("Request-Id")) {
		t.Error(text)
	}
	m := s.Message(e2e.MessageBody("say:a", e2e.Fields{"model": "claude-haiku-5-5"}))
	if request, _ := s.Model.Last(); m.Model != "claude-haiku-5-5" || !strings.Contains(string(request.Body), `"effort":"low"`) {
		t.Errorf("%+v", m)
	}
}

// TestCount: an estimate of the tokens, without a turn.
func TestCount(t *testing.T) {
	s := e2e.NewSite(t, "")
	body := e2e.MessageBody(strings.Repeat("one two three ", 1000), nil)
	delete(body, "max_tokens")
	response, text := s.Call(http.MethodPost, "/v1/messages/count_tokens?beta=true", body, nil)
	if response.StatusCode != http.StatusOK || !strings.HasPrefix(text, `{"input_tokens":30`) {
		t.Error(response.Status, text)
	}
	if _, asked := s.Model.Last(); asked {
		t.Error("the model was asked")
	}
}

// TestErrors: errors before and within a stream, in Anthropic's form.
func TestErrors(t *testing.T) {
	s := e2e.NewSite(t, "api_key secret")
	for name, c := range map[string]struct {
		prompt, key string
		status      int
		want, retry string
	}{
		"no key":      {"say:a", "", 401, `"type":"authentication_error"`, "false"},
		"too long":    {"fail:context_length_exceeded", "secret", 400, `"message":"prompt is too long: `, ""},
		"overloaded":  {"http:503 1", "secret", 529, `"type":"overloaded_error"`, ""},
		"spent":       {"limit:3600 plus", "secret", 429, `"type":"rate_limit_error"`, "false"},
		"rate limit":  {"fail:rate_limit_exceeded", "secret", 429, `"type":"rate_limit_error"`, ""},
		"the request": {"http:400", "secret", 400, `"type":"invalid_request_error"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.At(t)
			response, text := s.PostMessage(e2e.MessageBody(c.prompt, e2e.Fields{"stream": true}), http.Header{"X-Api-Key": {c.key}})
			// With a login Codex tries some requests for longer than the header of a stream waits.
			within := s.Plan != nil && response.StatusCode == http.StatusOK
			if !strings.Contains(text, c.want) || !within && (response.StatusCode != c.status || response.Header.Get("X-Should-Retry") != c.retry || !strings.Contains(text, response.Header.Get("Request-Id"))) {
				t.Error(response.Status, response.Header, text)
			}
		})
	}
	_, text := s.PostMessage(e2e.MessageBody("say:a long text; cutoff", e2e.Fields{"stream": true}), e2e.Bearer("secret"))
	if r, err := messagecheck.Stream(text); err != nil || r.Failure == nil || r.Failure.Error.Type != "api_error" {
		t.Errorf("%v %s", err, text)
	}
}

// given returns the items of the model's last request, a line each, and its cache key.
func given(s *e2e.Site) (lines []string, key string) {
	request, _ := s.Model.Last()
	for _, i := range request.Input {
		switch i.Type {
		case "function_call":
			lines = append(lines, "call "+i.Name+i.Arguments)
		case "function_call_output":
			lines = append(lines, "result "+i.Output.String())
		case "reasoning":
			lines = append(lines, "reasoning")
		default:
			lines = append(lines, i.Role+" "+i.Content.String())
		}
	}
	return lines, request.PromptCacheKey
}

// TestNotesBehindResults: notes of the role system behind the results of a parked turn do not
// end it, whatever stands beside them.
func TestNotesBehindResults(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		t.Cleanup(s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
			_, answered := lastResult(r)
			return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("Done.")}}, answered
		}))
		for _, more := range []string{
			"developer note", "user typed/developer note", "developer note/user typed", "user one/developer note/user two",
			"user typed", "developer one/developer two", "",
		} {
			t.Run(more, func(t *testing.T) {
				s := s.At(t)
				body := e2e.MessageBody("tool:2 f {\"q\":\"%d\"}", e2e.Fields{"tools": []any{tool("f")}, "stream": true})
				m := s.Message(body)
				_, key := given(s)
				history := append(body["messages"].([]any), m.Back(), e2e.UserMessage([]any{
					e2e.Fields{"type": "tool_result", "tool_use_id": m.Content[1].ID, "content": "second"},
					e2e.Fields{"type": "tool_result", "tool_use_id": m.Content[0].ID, "content": []any{e2e.Fields{"type": "text", "text": "first"}}, "is_error": true},
				}))
				want := []string{"result first", "result second"}
				for one := range strings.SplitSeq(more, "/") {
					if role, text, ok := strings.Cut(one, " "); ok {
						history = append(history, e2e.Fields{"role": map[string]string{"developer": "system", "user": "user"}[role], "content": text})
						want = append(want, one)
					}
				}
				body["messages"] = history
				s.Message(body)
				lines, again := given(s)
				if got := lines[len(lines)-len(want):]; again != key || !slices.Equal(got, want) {
					t.Errorf("the model got %q with the key %s; want %q with %s", got, again, want, key)
				}
			})
		}
	})
}

// lastResult returns the last item of a request, and whether there is a result in it.
func lastResult(r scriptedmodel.Request) (scriptedmodel.Item, bool) {
	return r.Input[len(r.Input)-1], slices.ContainsFunc(r.Input, func(i scriptedmodel.Item) bool { return i.Type == "function_call_output" })
}

// TestSignatures: the signatures of thinking blocks carry the model's reasoning into a thread
// that knows nothing of it.
func TestSignatures(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "conversations off")
		for _, display := range []string{"summarized", "omitted"} {
			body := e2e.MessageBody("reason:Hm.; say:So.", e2e.Fields{"stream": true, "thinking": e2e.Fields{"type": "adaptive", "display": display}})
			m := s.Message(body)
			if len(m.Content) != 2 || m.Content[0].Signature == "" || (m.Content[0].Thinking == "") != (display == "omitted") {
				t.Fatalf("%s: %+v", display, m)
			}
			foreign := e2e.Fields{"role": "assistant", "content": []any{e2e.Fields{"type": "thinking", "thinking": "Else.", "signature": "EqoBCkgI"}, e2e.Fields{"type": "text", "text": "Other."}}}
			body["messages"] = append(body["messages"].([]any), m.Back(), e2e.UserMessage("and?"), foreign, e2e.UserMessage("say:Yes."))
			s.Message(body)
			lines, _ := given(s)
			request, _ := s.Model.Last()
			if all := strings.Join(lines[1:], "/"); all != "user reason:Hm.; say:So./reasoning/assistant So./user and?/assistant Other./user say:Yes." || strings.Contains(string(request.Body), "EqoB") {
				t.Errorf("%s: the model was given %s", display, all)
			}
			at := slices.IndexFunc(request.Input, func(i scriptedmodel.Item) bool { return i.Type == "reasoning" })
			if at < 0 || request.Input[at].EncryptedContent == "" {
				t.Errorf("%s: %+v", display, request.Input)
			}
		}
	})
}

// TestSameItems: the same question by each of the APIs gives the model the same, whether results
// of calls end it or a text of the user's, and also with a model whose effort can change.
func TestSameItems(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "conversations off")
		for _, model := range []string{"gpt-5", "gpt-6.1-sol"} {
			for _, prompt := range []string{"say:Done.", ""} {
				t.Run(model+" "+prompt, func(t *testing.T) { testSameItems(s.At(t), model, prompt) })
			}
		}
	})
}

func testSameItems(s *e2e.Site, model, prompt string) {
	schema := e2e.Fields{"type": "object", "properties": e2e.Fields{"q": e2e.Fields{"type": "string"}}}
	function := e2e.Fields{"name": "f", "description": "Does f", "parameters": schema}
	var last []any
	blocks := []any{e2e.Fields{"type": "tool_result", "tool_use_id": "c", "content": "r"}}
	if prompt != "" {
		last = []any{e2e.UserMessage(prompt)}
		blocks = append(blocks, e2e.Fields{"type": "text", "text": prompt})
	}
	response, text := s.Post(e2e.ChatBody("", e2e.Fields{"model": model, "tools": []any{e2e.Fields{"type": "function", "function": function}}, "messages": append([]any{
		e2e.Fields{"role": "system", "content": "Be brief."}, e2e.UserMessage("q 😀"),
		e2e.Fields{"role": "assistant", "content": "Look.", "tool_calls": []any{e2e.Fields{"id": "c", "type": "function", "function": e2e.Fields{"name": "f", "arguments": `{"q":"ü"}`}}}},
		e2e.Fields{"role": "tool", "tool_call_id": "c", "content": "r"},
	}, last...)}), nil)
	if response.StatusCode != http.StatusOK {
		s.T.Fatal(text)
	}
	want := lastAsked(s)
	s.Respond(e2e.Fields{
		"model": model, "instructions": "Be brief.", "tools": []any{e2e.Fields{"type": "function", "name": "f", "description": "Does f", "parameters": schema}},
		"input": append([]any{
			e2e.UserMessage("q 😀"), e2e.Fields{"role": "assistant", "content": "Look."},
			e2e.Fields{"type": "function_call", "call_id": "c", "name": "f", "arguments": `{"q":"ü"}`},
			e2e.Fields{"type": "function_call_output", "call_id": "c", "output": "r"},
		}, last...),
	}, nil)
	if got := lastAsked(s); got != want {
		s.T.Errorf("Responses\n%s\nchat\n%s", got, want)
	}
	s.Message(e2e.MessageBody("", e2e.Fields{
		"model": model, "system": "Be brief.", "tools": []any{e2e.Fields{"name": "f", "description": "Does f", "input_schema": schema}},
		"messages": []any{
			e2e.UserMessage("q 😀"),
			e2e.Fields{"role": "assistant", "content": []any{e2e.Fields{"type": "text", "text": "Look."}, e2e.Fields{"type": "tool_use", "id": "c", "name": "f", "input": e2e.Fields{"q": "ü"}}}},
			e2e.UserMessage(blocks),
		},
	}))
	if got := lastAsked(s); got != want {
		s.T.Errorf("Messages\n%s\nchat\n%s", got, want)
	}
}

// lastAsked returns the items and the tools of the model's last request.
func lastAsked(s *e2e.Site) string {
	request, _ := s.Model.Last()
	var body struct {
		Input []map[string]any
		Tools json.RawMessage
	}
	must.OK(s.T, json.Unmarshal(request.Body, &body))
	for _, item := range body.Input {
		delete(item, "id") // Codex's, as are the times that it sends with a login
		delete(item, "internal_chat_message_metadata_passthrough")
	}
	return e2e.EncodeJSON(body)
}

// sent is what the model was sent in a session.
type sent struct {
	keys     map[string]bool // of the provider's cache
	extends  bool            // each input begins with all of the one before
	repeated float64         // the part of the input, without that of the first request, that was sent before with the same key
	requests int
}

// sentIn reads what the requests of a session had.
func sentIn(t *testing.T, requests []scriptedmodel.Request) sent {
	t.Helper()
	s := sent{keys: map[string]bool{}, extends: true, requests: len(requests)}
	last := map[string][]json.RawMessage{} // by the key
	var before []json.RawMessage
	all, again := 0, 0
	for i, r := range requests {
		var body struct{ Input []json.RawMessage }
		must.OK(t, json.Unmarshal(r.Body, &body))
		s.keys[r.PromptCacheKey] = true
		s.extends = s.extends && samePrefix(body.Input, before) == len(before)
		same := samePrefix(body.Input, last[r.PromptCacheKey])
		for k, item := range body.Input {
			if k >= same && strings.Contains(string(item), `"encrypted_content"`) {
				continue // what the model has just thought is long, and new to any cache
			}
			if i > 0 {
				all += len(item)
			}
			if i > 0 && k < same {
				again += len(item)
			}
		}
		last[r.PromptCacheKey], before = body.Input, body.Input
	}
	s.repeated = float64(again) / float64(all)
	return s
}

// samePrefix returns with how many equal items two inputs begin. The ids of items are Codex's.
func samePrefix(a, b []json.RawMessage) int {
	n := 0
	for n < len(a) && n < len(b) && string(a[n]) == string(b[n]) {
		n++
	}
	return n
}

// rounds are how many requests of the model a part of a session has.
const rounds = 5

// agent makes the model work in rounds: mostly it runs a command, in the last one of a part it
// ends its turn. It loads a deferred tool and calls it, if there are such.
func agent(s *e2e.Site) {
	var round atomic.Int64
	s.T.Cleanup(s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		if !slices.ContainsFunc(r.Tools, func(t scriptedmodel.Tool) bool { return t.Name == "Bash" }) {
			return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say(`{"title":"A session"}`)}}, true // a title
		}
		n := round.Add(1)
		var out []scriptedmodel.Output
		switch deferred := slices.ContainsFunc(r.Tools, func(t scriptedmodel.Tool) bool { return t.Name == "call_tool" }); {
		case n%rounds == 0:
			out = []scriptedmodel.Output{scriptedmodel.Reason("So."), scriptedmodel.Say("This is done.")}
		case deferred && n == 2:
			out = []scriptedmodel.Output{scriptedmodel.Call{Name: "ToolSearch", Arguments: `{"query":"select:CronList,TaskStop","max_results":2}`}}
		case deferred && n == 3:
			out = []scriptedmodel.Output{scriptedmodel.Call{Name: "call_tool", Arguments: `{"name":"CronList","arguments":{}}`}}
		case n%2 == 0:
			out = []scriptedmodel.Output{scriptedmodel.Say("Let me look."), scriptedmodel.Call{Name: "Bash", Arguments: fmt.Sprintf(`{"command":"seq %d","description":"count"}`, n)}}
		default:
			out = []scriptedmodel.Output{
				scriptedmodel.Reason("Hm."),
				scriptedmodel.Call{Name: "Bash", Arguments: fmt.Sprintf(`{"command":"sleep 0.1; seq %d","description":"count"}`, n)},
				scriptedmodel.Call{Name: "Bash", Arguments: fmt.Sprintf(`{"command":"seq %d; false","description":"fail"}`, n)},
			}
		}
		return scriptedmodel.Script{Output: out}, true
	}))
}

// session returns the requests of the session with the tools of Claude Code.
func session(s *e2e.Site) (all []scriptedmodel.Request) {
	for _, r := range s.Model.Requests() {
		if strings.Contains(string(r.Body), `"name":"Bash"`) {
			all = append(all, r)
		}
	}
	return all
}

// once runs a test over the usual transport.
func once(t *testing.T, test func(t *testing.T, all bool)) { test(t, true) }

// TestCache: a session of Claude Code of 20 rounds, or of 10 or 5, has one key of the provider's cache,
// and nearly all of each input was sent before, with deferred tools and without. With a thread for
// each request, as other programs do it, nothing was.
func TestCache(t *testing.T) {
	for _, c := range []struct {
		name, options string
		env           []string
		kept          bool
		sdk           bool // it is the Agent SDK's
		parts         int  // of the session; each but the SDK's starts Claude Code
		over          func(*testing.T, func(t *testing.T, all bool))
	}{
		{"deferred tools", "", nil, true, false, 4, e2e.OverBothSampled},
		{"all tools", "", []string{"ENABLE_TOOL_SEARCH=false"}, true, false, 2, once},
		{"the Agent SDK", "", nil, true, true, 4, once},
		{"a thread for each request", "conversations off", nil, false, false, 1, once},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.over(t, func(t *testing.T, all bool) {
				s := e2e.NewSite(t, c.options)
				agent(s)
				claude := newClaude(t, s, c.env...)
				said := []string(nil)
				parts, least := []string{"Part 0.", "Part 1.", "Part 2.", "Part 3."}[:c.parts], 0.95
				if !all {
					parts = parts[:2]
				}
				if len(parts) < 4 {
					least = 0.92
				}
				if c.sdk {
					said = claude.session(parts)
				} else {
					for i, part := range parts {
						said = append(said, claude.run(part, []string{"--continue"}[:min(i, 1)]...).Result)
					}
				}
				if !slices.Equal(said, slices.Repeat([]string{"This is done."}, len(parts))) {
					t.Fatalf("%q", said)
				}
				got := sentIn(t, session(s))
				t.Logf("%d requests, %d keys, %.1f %% sent before", got.requests, len(got.keys), 100*got.repeated)
				if got.requests != rounds*len(parts) || c.kept != (len(got.keys) == 1) || c.kept && (!got.extends || got.repeated < least) || !c.kept && got.repeated > 0 {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// TestLimits: the limits of a key in Anthropic's headers, in answers and in the refusal of one
// request too many, at which its clients do not try for an hour.
func TestLimits(t *testing.T) {
	s := e2e.NewSite(t, "api_keys_file "+e2e.NewKeyFile(t, map[string]string{"sk-a": "requests 2 1h\ntokens 100000 1h"}).Path)
	began := time.Now().Truncate(time.Second)
	for i, want := range []string{"1", "0", "0"} {
		response, text := s.PostMessage(e2e.MessageBody("say:a", e2e.Fields{"stream": i == 0}), http.Header{"X-Api-Key": {"sk-a"}})
		header := response.Header
		resets, err := time.Parse(time.RFC3339, header.Get("Anthropic-Ratelimit-Requests-Reset"))
		if in := resets.Sub(began); err != nil || in <= 0 || in > time.Hour*21/20+2*e2e.Deadline {
			t.Errorf("%d: %v, it resets in %s", i, err, in)
		}
		if header.Get("Anthropic-Ratelimit-Requests-Limit") != "2" || header.Get("Anthropic-Ratelimit-Requests-Remaining") != want || header.Get("Request-Id") == "" {
			t.Errorf("%d: %v", i, header)
		}
		for name := range header {
			if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-ratelimit") || strings.Contains(lower, "tokens") {
				t.Errorf("%d: the header %s", i, name)
			}
		}
		if refused := i == 2; refused != (response.StatusCode == http.StatusTooManyRequests) ||
			refused && (!strings.Contains(text, `"type":"rate_limit_error"`) || header.Get("X-Should-Retry") != "false" || header.Get("Retry-After") != "") {
			t.Errorf("%d: %s %v %s", i, response.Status, header, text)
		}
	}
}
