package chat

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/draw"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// marked returns a conversation in which each text has a mark.
func marked(model string, tools bool) (body e2e.Fields, marks []string) {
	mark := func(name string) string {
		marks = append(marks, "MARK-"+name+"-MARK")
		return marks[len(marks)-1]
	}
	body = e2e.Fields{"model": model, "messages": []any{
		e2e.Fields{"role": "system", "content": mark("system")},
		e2e.Fields{"role": "developer", "content": mark("developer")},
		e2e.Fields{"role": "user", "content": mark("first")},
		e2e.Fields{"role": "assistant", "content": mark("assistant"), "tool_calls": []any{
			e2e.Fields{"id": "c", "type": "function", "function": e2e.Fields{"name": "localSearch", "arguments": `{"query":"` + mark("arguments") + `"}`}}}},
		e2e.Fields{"role": "tool", "tool_call_id": "c", "content": mark("result")},
		e2e.Fields{"role": "system", "content": mark("later")},
		e2e.Fields{"role": "user", "content": "say:ok " + mark("last")},
	}}
	if tools {
		search := e2e.Tool("localSearch")
		search["function"].(map[string]any)["description"] = mark("description")
		search["function"].(map[string]any)["parameters"].(map[string]any)["description"] = mark("schema")
		body["tools"], body["tool_choice"] = []any{search}, "required"
		marks = append(marks, "must call")
	} else {
		body["response_format"] = e2e.Fields{"type": "json_object"}
		marks = append(marks, "Answer with a single JSON object")
	}
	return body, marks
}

// checkOnce: the model gets each text of the conversation once, after one or no prompt of Codex.
func checkOnce(s *e2e.Site, model string, tools, own bool) {
	s.T.Helper()
	body, marks := marked(model, tools)
	request := asked(s, "/v1/chat/completions", body)
	for _, mark := range marks {
		if n := strings.Count(string(request.Body), mark); n != 1 {
			s.T.Errorf("%q is there %d times", mark, n)
		}
	}
	if request.LeadsWithOwnPrompt() != own {
		s.T.Errorf("Codex's own prompt leads: %t", !own)
	}
	prompts := 0
	for _, item := range request.Input {
		if strings.HasPrefix(item.Content.String(), "You are ") {
			prompts++
		}
	}
	if own && prompts != 1 || !own && prompts != 0 {
		s.T.Errorf("there are %d prompts", prompts)
	}
	checkNothingOfTheHostButPrompt(s.T, request, own)
}

// checkNothingOfTheHostButPrompt leaves out Codex's prompt, which mentions sandboxes and files.
func checkNothingOfTheHostButPrompt(t testing.TB, request scriptedmodel.Request, own bool) {
	t.Helper()
	for own && len(request.Input) > 0 {
		own = !strings.HasPrefix(request.Input[0].Content.String(), "You are ")
		request.Input = request.Input[1:]
	}
	e2e.CheckNothingOfTheHost(t, request)
}

// TestEachTextOnce checks that each text of a request reaches the model exactly once: for every
// model of Codex and an unknown one, with and without tools, with and without Codex's own prompt.
func TestEachTextOnce(t *testing.T) {
	s := e2e.NewSite(t, "")
	models := append(s.Models(), "gpt-5", "other/model")
	for _, where := range []string{"replace", "append"} {
		s.Load(s.Caddyfile("instructions " + where))
		s.WaitReady()
		for _, model := range models {
			for _, tools := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%t", where, model, tools), func(t *testing.T) {
					checkOnce(s.At(t), model, tools, where == "append")
				})
			}
		}
	}
}

// strictSite has a provider that accepts only Codex's own prompt, and refuses others
// after a while. The requests to the model are counted from 0.
type strictSite struct {
	*e2e.Site
	options string
	admin   *e2e.Site
	log     string // path of the log
	after   time.Duration
	seen    int
	round   int
}

func newStrictSite(t *testing.T, options string) *strictSite {
	s := newCountedSite(t, options)
	s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		if !r.LeadsWithOwnPrompt() {
			time.Sleep(s.after)
			return scriptedmodel.Script{End: scriptedmodel.ForeignInstructions{}}, true
		}
		return scriptedmodel.Script{}, false
	})
	return s
}

// newCountedSite is newStrictSite with a provider that accepts all instructions.
func newCountedSite(t *testing.T, options string) *strictSite {
	s := &strictSite{Site: e2e.NewSite(t, ""), options: options, log: filepath.Join(t.TempDir(), "log")}
	s.admin = s.Node()
	s.begin()
	t.Cleanup(func() { s.Load(s.Caddyfile("")) }) // without the admin endpoint
	return s
}

// begin starts an app-server without turns.
func (s *strictSite) begin() {
	s.T.Helper()
	s.round++
	caddyfile := s.Caddyfile(fmt.Sprintf("app_server %s app-server {\nhome %s\nenv ROUND %d\n}\n%s", e2e.CodexBinary, s.Home, s.round, s.options))
	s.Load(strings.Replace(caddyfile, "admin off", "admin "+s.admin.Addr+"\nlog default {\noutput file "+s.log+"\n}", 1))
	s.WaitSuccessor(1)
	s.seen = s.Model.Stats().Requests
}

// requests returns the number of requests to the model since the last call.
func (s *strictSite) requests() int {
	seen := s.Model.Stats().Requests
	defer func() { s.seen = seen }()
	return seen - s.seen
}

func (s *strictSite) instructions() string {
	s.T.Helper()
	return s.admin.Status().AppServers[0].Instructions
}

type strictAsk struct {
	path string
	body e2e.Fields
}

// strictAsks returns requests of each kind, whose answers contain "ok".
func strictAsks(model string) map[string]strictAsk {
	asks := map[string]strictAsk{}
	for _, stream := range []bool{false, true} {
		for _, tools := range []bool{false, true} {
			chat := e2e.Fields{"model": model, "stream": stream, "messages": []any{
				e2e.Fields{"role": "system", "content": "MARK-system-MARK"}, e2e.Fields{"role": "user", "content": "say:It is ok."}}}
			response := e2e.Fields{"model": model, "stream": stream, "instructions": "MARK-system-MARK", "input": "say:It is ok."}
			if tools {
				chat["tools"], response["tools"] = []any{e2e.Tool("localSearch")}, []any{e2e.FunctionTool("localSearch")}
			}
			kind := fmt.Sprintf("stream %t, tools %t", stream, tools)
			asks["chat, "+kind] = strictAsk{"/v1/chat/completions", chat}
			asks["responses, "+kind] = strictAsk{"/v1/responses", response}
		}
	}
	return asks
}

// TestStrictProvider: a refused request is sent again with Codex's own prompt, which later ones
// have from the start. Every two of API, stream and tools are tried together, each on an app-server
// of its own, with a model that is drawn.
func TestStrictProvider(t *testing.T) {
	s := newStrictSite(t, "")
	round := 0
	models := []string{"gpt-5", "gpt-6-astra"} // the former is not in Codex's catalogue
	asks := [2]map[string]strictAsk{strictAsks(models[0]), strictAsks(models[1])}
	kinds := []string{
		"chat, stream false, tools true", "chat, stream true, tools false",
		"responses, stream false, tools false", "responses, stream true, tools true",
	}
	if draw.Cases(1, 2) > 1 {
		kinds = slices.Sorted(maps.Keys(asks[0]))
	}
	for _, name := range kinds {
		drawn := rand.IntN(len(models))
		for i, model := range models {
			if i != drawn && draw.Cases(1, len(models)) == 1 {
				continue
			}
			ask := asks[i][name]
			t.Run(model+", "+name, func(t *testing.T) {
				sub := *s
				sub.Site, sub.round = s.At(t), s.round+round
				round++
				sub.begin()
				for _, want := range []int{2, 1, 1} {
					response, text := sub.Call(http.MethodPost, ask.path, ask.body, nil)
					if response.StatusCode != http.StatusOK || !strings.Contains(text, "ok.") || strings.Contains(text, "not valid") {
						t.Errorf("%s %s", response.Status, text)
					}
					if n := sub.requests(); n != want {
						t.Errorf("the model was asked %d times, not %d", n, want)
					}
					if request, _ := sub.Model.Last(); strings.Count(string(request.Body), "MARK-system-MARK") != 1 {
						t.Errorf("the model was given %q", e2e.Describe(request))
					}
					if got := sub.instructions(); got != "append" {
						t.Errorf("the status says %q", got)
					}
				}
			})
		}
	}
}

// TestStrictProviderOnce: a refusal is logged once, and each of several choices is sent again once.
func TestStrictProviderOnce(t *testing.T) {
	s := newStrictSite(t, "")
	for _, want := range []int{6, 3} {
		response, text := s.Post(e2e.ChatBody("say:It is ok.", map[string]any{"n": 3}), nil)
		if response.StatusCode != http.StatusOK || strings.Count(text, `"content":"It is ok."`) != 3 {
			t.Errorf("%s %s", response.Status, text)
		}
		if n := s.requests(); n != want {
			t.Errorf("the model was asked %d times, not %d", n, want)
		}
	}
	log, err := os.ReadFile(s.log)
	if n := strings.Count(string(log), "the provider refuses instructions"); err != nil || n != 1 {
		t.Errorf("the log tells %d times of it, %v: %s", n, err, log)
	}
}

// TestStrictProviderForgotten: a new app-server, whose login may differ, starts without the prompt.
func TestStrictProviderForgotten(t *testing.T) {
	s := newStrictSite(t, "")
	for range 2 {
		if response, text := s.Post(e2e.ChatBody("say:It is ok.", nil), nil); response.StatusCode != http.StatusOK || s.requests() != 2 {
			t.Errorf("%s %s", response.Status, text)
		}
		before := s.admin.Status().AppServers[0].PID
		if response := s.admin.Do(http.MethodPost, "/codex/restart", nil, nil); response.StatusCode != http.StatusOK {
			t.Fatal(response.Status, s.admin.Read(response))
		}
		e2e.WaitFor(t, "a fresh app-server", func() bool { return s.admin.Status().AppServers[0].PID != before })
		if got := s.instructions(); got != "" {
			t.Errorf("the status still says %q", got)
		}
	}
}

// TestStrictProviderLate checks that a stream without output continues with the second attempt.
func TestStrictProviderLate(t *testing.T) {
	s := newStrictSite(t, "keepalive 200ms")
	s.after = 1500 * time.Millisecond
	for name, ask := range strictAsks("gpt-6-astra") {
		if ask.body["stream"] == true && ask.body["tools"] == nil {
			s.begin()
			response, text := s.Call(http.MethodPost, ask.path, ask.body, nil)
			if n := s.requests(); response.StatusCode != http.StatusOK || !strings.Contains(text, "ok.") || strings.Contains(text, "not valid") || n != 2 {
				t.Errorf("%s, after %d requests: %s %s", name, n, response.Status, text)
			}
		}
	}
}

// TestStrictProviderRefuses: replace gives the client the refusal; with append there is none.
func TestStrictProviderRefuses(t *testing.T) {
	for where, want := range map[string]int{"replace": http.StatusBadRequest, "append": http.StatusOK} {
		t.Run(where, func(t *testing.T) {
			s := newStrictSite(t, "instructions "+where)
			for name, ask := range strictAsks("gpt-6-astra") {
				begin := time.Now()
				response, text := s.Call(http.MethodPost, ask.path, ask.body, nil)
				if response.StatusCode != want && !e2e.IsLate(response, begin) || strings.Contains(text, "Instructions are not valid") != (want != http.StatusOK) {
					t.Errorf("%s: %s %s", name, response.Status, text)
				}
				if n := s.requests(); n != 1 || s.instructions() != "" {
					t.Errorf("%s: the model was asked %d times, the status says %q", name, n, s.instructions())
				}
			}
		})
	}
}

// TestProviderTurnsStrict: one request at most fails when a provider begins to refuse instructions.
func TestProviderTurnsStrict(t *testing.T) {
	s := e2e.NewSite(t, "conversations off")
	s.Served("say:accepted")
	s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		return scriptedmodel.Script{End: scriptedmodel.ForeignInstructions{}}, !r.LeadsWithOwnPrompt()
	})
	_, _ = s.Post(e2e.ChatBody("say:refused", nil), nil)
	response, text := s.Post(e2e.ChatBody("say:appended", nil), nil)
	if response.StatusCode != http.StatusOK || !strings.Contains(text, "appended") {
		t.Errorf("%s %s", response.Status, text)
	}
}
