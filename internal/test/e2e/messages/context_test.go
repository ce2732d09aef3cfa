package messages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/messagecheck"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// sdkAnswer is what Anthropic's SDK got for a request, or its error.
type sdkAnswer struct {
	Message struct {
		Content []struct {
			Type, Text, Content string
			Encrypted           string `json:"encrypted_content"`
		}
		StopReason string `json:"stop_reason"`
		Usage      messagecheck.Usage
		Management *struct {
			Applied []struct {
				Type     string
				ToolUses int `json:"cleared_tool_uses"`
				Turns    int `json:"cleared_thinking_turns"`
				Tokens   int `json:"cleared_input_tokens"`
			} `json:"applied_edits"`
		} `json:"context_management"`
	}
	Count struct {
		Input      int `json:"input_tokens"`
		Management struct {
			Original int `json:"original_input_tokens"`
		} `json:"context_management"`
	}
	Error  string
	Status int
}

// runSDK asks prompts in a conversation of Anthropic's SDK; the prompt nil asks for a summary, with which the conversation
// goes on. It returns the answers to each prompt: calls get results, and are followed by another answer.
func runSDK(s *e2e.Site, body e2e.Fields, results string, prompts ...any) (all [][]sdkAnswer) {
	s.T.Helper()
	if _, err := os.Stat("../clients/node_modules/.package-lock.json"); err != nil {
		needs.Missing(s.T, "Anthropic's SDK is not installed: run `make deps`")
	}
	script, err := filepath.Abs("../clients/anthropic-session.js")
	must.OK(s.T, err)
	ctx, cancel := context.WithTimeout(s.T.Context(), 2*e2e.Deadline)
	defer cancel()
	work := e2e.Fields{"body": e2e.MessageBody("", body), "prompts": prompts, "results": results}
	cmd := exec.CommandContext(ctx, "node", script, s.URL)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(e2e.EncodeJSON(work)), &stderr
	out, err := cmd.Output()
	if err != nil {
		s.T.Fatalf("%v: %s%s", err, out, &stderr)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var answers []sdkAnswer
		must.OK(s.T, d.Decode(&answers))
		all = append(all, answers)
	}
	return all
}

// TestContextEdits lets the model use a tool often: it reads no old results, but notes in their place. Most of what it is
// sent is in the cache of its thread, since the results are cleared a few at a time.
func TestContextEdits(t *testing.T) {
	const uses = 24
	result := strings.Repeat("word ", 1600) // 2,000 tokens, as they are estimated
	s := e2e.NewSite(t, "")
	s.Model.SetWindow(272_000)
	t.Cleanup(s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		out := []scriptedmodel.Output{scriptedmodel.Reason("Hm."), scriptedmodel.Call{Name: "f", Arguments: fmt.Sprintf(`{"q":"%d"}`, len(r.ToolResults()))}}
		if len(r.ToolResults()) == uses {
			out = []scriptedmodel.Output{scriptedmodel.Reason("So."), scriptedmodel.Say("Done.")}
		}
		return scriptedmodel.Script{Output: out}, true
	}))
	e2e.EachWay(t, s, func(t *testing.T, s *e2e.Site, stream bool) {
		begin := len(s.Model.Requests())
		prompts := runSDK(s, e2e.Fields{
			"stream": stream, "tools": []any{tool("f")}, "thinking": e2e.Fields{"type": "adaptive"},
			"context_management": e2e.Fields{"edits": []any{
				e2e.Fields{"type": "clear_thinking_20251015", "keep": e2e.Fields{"type": "thinking_turns", "value": 1}},
				e2e.Fields{
					"type": "clear_tool_uses_20250919", "trigger": e2e.Fields{"type": "input_tokens", "value": 20_000}, "keep": e2e.Fields{"type": "tool_uses", "value": 2},
					"clear_at_least": e2e.Fields{"type": "input_tokens", "value": 8000},
				},
			}},
		}, result, "Go.", "Again.")
		if len(prompts) != 2 || len(prompts[0]) != uses+1 || len(prompts[1]) != uses+1 {
			t.Fatalf("%+v", prompts)
		}
		input, cached := int64(0), int64(0)
		for _, a := range prompts[0] {
			input, cached = input+*a.Message.Usage.Input+*a.Message.Usage.CacheRead, cached+*a.Message.Usage.CacheRead
			if a.Message.Management == nil || a.Count.Management.Original < a.Count.Input {
				t.Fatalf("%+v", a)
			}
		}
		if share := float64(cached) / float64(input); share < 0.65 {
			t.Errorf("%.2f of the input is from the cache", share)
		}
		last := prompts[1][uses]
		applied := last.Message.Management.Applied
		if len(applied) != 2 || applied[0].Type != "clear_thinking_20251015" || applied[0].Turns != 1 || applied[1].ToolUses < 2*uses-20 || last.Message.Content[1].Text != "Done." {
			t.Errorf("%+v", last)
		}
		if saved := last.Count.Management.Original - last.Count.Input; saved != applied[0].Tokens+applied[1].Tokens || saved < 10_000 {
			t.Errorf("%+v", last)
		}
		requests := s.Model.Requests()[begin:]
		final := string(requests[len(requests)-1].Body)
		if cleared := strings.Count(final, "This result was removed"); cleared != applied[1].ToolUses || strings.Count(final, result) != 2*uses-cleared {
			t.Errorf("%d results are cleared", cleared)
		}
		if reasoned := strings.Count(final, `"type":"reasoning"`); reasoned != uses {
			t.Errorf("%d items of reasoning", reasoned)
		}
		for i, r := range requests {
			if r.Tokens > 40_000 { // of 110,000
				t.Errorf("request %d has %d tokens", i, r.Tokens)
			}
		}
	})
	failed := runSDK(s, e2e.Fields{"context_management": e2e.Fields{"edits": []any{e2e.Fields{"type": "clear_01"}}}}, "", "Hi")[0][0]
	if failed.Status != 400 || !strings.Contains(failed.Error, "context_management.edits.0.type: must be one of clear_thinking_20251015, ") {
		t.Errorf("%+v", failed)
	}
}

// blocksOf returns the types of an answer's blocks, and its stop_reason.
func blocksOf(a sdkAnswer) (types string) {
	for _, b := range a.Message.Content {
		types += b.Type + " "
	}
	return types + a.Message.StopReason
}

// TestSummaries: a conversation that is longer than the window goes on, with a summary of the model's in its place: when it
// has reached the trigger, also with a pause, and when the client asks for it.
func TestSummaries(t *testing.T) {
	s := e2e.NewSite(t, "")
	s.Model.SetWindow(100_000)
	t.Cleanup(s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		return saying("Well."), strings.HasPrefix(r.UserText(), "FACT")
	}))
	long := func(i int) any { return fmt.Sprintf("FACT f%d = v%d\n", i, i) + strings.Repeat("word ", 20_000) } // so many tokens
	e2e.EachWay(t, s, func(t *testing.T, s *e2e.Site, stream bool) {
		for name, c := range map[string]struct {
			edit    e2e.Fields
			prompts []any
			want    []string // the blocks and stop reasons of the answers
		}{
			"trigger": {
				e2e.Fields{"type": "compact_20260112", "trigger": e2e.Fields{"type": "input_tokens", "value": 50_000}}, []any{long(0), long(1), long(2), "RECALL f0", long(3), long(4), long(5), "RECALL f0"},
				[]string{"text end_turn", "text end_turn", "compaction text end_turn", "text end_turn", "text end_turn", "text end_turn", "compaction text end_turn", "text end_turn"},
			},
			"pause": {
				e2e.Fields{"type": "compact_20260112", "trigger": e2e.Fields{"type": "input_tokens", "value": 50_000}, "pause_after_compaction": true}, []any{long(0), long(1), long(2), "RECALL f0"},
				[]string{"text end_turn", "text end_turn", "compaction compaction", "text end_turn", "text end_turn"},
			},
			"summarize": {nil, []any{long(0), long(1), long(2), nil, "RECALL f0", long(3), nil, "RECALL f0"}, []string{"text end_turn", "text end_turn", "text end_turn", "compaction compaction", "text end_turn", "text end_turn", "compaction compaction", "text end_turn"}},
		} {
			t.Run(name, func(t *testing.T) {
				body := e2e.Fields{"stream": stream, "system": "Be brief."}
				if c.edit != nil {
					body["context_management"] = e2e.Fields{"edits": []any{c.edit}}
				}
				var got []string
				for i, answers := range runSDK(s.At(t), body, "", c.prompts...) {
					for _, a := range answers {
						got = append(got, blocksOf(a))
						if a.Error != "" {
							t.Fatalf("%d: %s", i, a.Error)
						}
						checkSummary(t, a)
					}
					if last := answers[len(answers)-1]; c.prompts[i] == "RECALL f0" && last.Message.Content[0].Text != "v0" {
						t.Errorf("%d: %+v", i, last.Message)
					}
				}
				if strings.Join(got, "; ") != strings.Join(c.want, "; ") {
					t.Errorf("got  %q\nwant %q", got, c.want)
				}
			})
		}
	})
}

// checkSummary checks the block with a summary, and what its usage says, if an answer begins with one.
func checkSummary(t *testing.T, a sdkAnswer) {
	t.Helper()
	u, b := a.Message.Usage, a.Message.Content[0]
	if b.Type != "compaction" {
		if u.Iterations != nil {
			t.Errorf("%+v", u)
		}
		return
	}
	if !strings.Contains(b.Content, "FACT f0 = v0") || b.Encrypted == "" {
		t.Errorf("the summary %+v", b)
	}
	summary, more := u.Iterations[0], len(a.Message.Content) > 1
	if summary.Type != "compaction" || summary.Output == 0 || float64(summary.CacheRead) < 0.6*float64(summary.Input+summary.CacheRead) {
		t.Errorf("the summary used %+v", summary)
	}
	if more != (len(u.Iterations) == 2) || more != (*u.Output > 0) || *u.Input+*u.CacheRead > 30_000 {
		t.Errorf("the usage is %+v", u)
	}
}

// TestSealedSummaries: a summary that was changed, or is another user's, is a 400 that names it.
func TestSealedSummaries(t *testing.T) {
	s := e2e.NewSite(t, "api_keys_file "+e2e.NewKeyFile(t, map[string]string{"sk-a": "", "sk-b": ""}).Path)
	post := func(key string, body e2e.Fields) (int, string) {
		response, text := s.PostMessage(body, http.Header{"X-Api-Key": {key}})
		return response.StatusCode, text
	}
	status, text := post("sk-a", e2e.MessageBody("FACT f = v", e2e.Fields{"compaction": e2e.Fields{"type": "summarize"}}))
	m, err := messagecheck.Whole([]byte(text))
	if status != http.StatusOK || err != nil || m.StopReason != "compaction" || len(m.Content) != 1 {
		t.Fatal(status, text, err)
	}
	back := func(encrypted string) e2e.Fields {
		*m.Content[0].Encrypted = encrypted
		return e2e.MessageBody("", e2e.Fields{"messages": []any{m.Back(), e2e.UserMessage("RECALL f")}})
	}
	sealed := *m.Content[0].Encrypted
	for name, c := range map[string]struct {
		key, encrypted, want string
	}{
		"the same":       {"sk-a", sealed, `"text":"v"`},
		"another's":      {"sk-b", sealed, `"message":"messages.0.content.0.encrypted_content: the summary cannot be read: `},
		"a changed one":  {"sk-a", sealed[:len(sealed)-8] + "AAAAAAAA", `"message":"messages.0.content.0.encrypted_content: `},
		"a shorter one":  {"sk-a", sealed[:len(sealed)/2], `"message":"messages.0.content.0.encrypted_content: `},
		"a foreign one":  {"sk-b", "EqoB", `"text":"v"`},
		"the same again": {"sk-a", sealed, `"text":"v"`},
	} {
		if status, text := post(c.key, back(c.encrypted)); !strings.Contains(text, c.want) || (status == http.StatusOK) != strings.HasPrefix(c.want, `"text"`) {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
}

// TestNoSummary: if the model writes no summary, the edit has the answer made without one, and a request for a summary alone
// is a 400. The conversation stays as it is.
func TestNoSummary(t *testing.T) {
	s := e2e.NewSite(t, "")
	t.Cleanup(s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) { return saying(" "), r.AsksForSummary() }))
	long := "say:Well.\n" + strings.Repeat("word ", 60_000)
	e2e.EachWay(t, s, func(t *testing.T, s *e2e.Site, stream bool) {
		body := e2e.Fields{"stream": stream, "max_tokens": 1, "context_management": e2e.Fields{"edits": []any{
			e2e.Fields{"type": "compact_20260112", "trigger": e2e.Fields{"type": "input_tokens", "value": 50_000}},
		}}}
		m := s.Message(e2e.MessageBody(long, body))
		if len(m.Content) != 2 || m.Content[0].Type != "compaction" || string(m.Content[0].Content) != "null" || !strings.HasPrefix(m.Content[1].Text, "Well") || len(m.Usage.Iterations) != 2 {
			t.Errorf("%+v", m)
		}
		if m := s.Message(e2e.MessageBody("", e2e.Fields{"messages": []any{e2e.UserMessage("q"), m.Back(), e2e.UserMessage("say:Yes.")}})); texts(m) != "Yes." {
			t.Errorf("%+v", m)
		}
		response, text := s.PostMessage(e2e.MessageBody("q", e2e.Fields{"stream": stream, "compaction": e2e.Fields{"type": "summarize"}}), nil)
		if response.StatusCode != http.StatusBadRequest || !strings.Contains(text, "the model wrote no summary") {
			t.Error(response.Status, text)
		}
	})
}

// TestSummarisedThread: after a summary, the conversation goes on in the thread of the answer, so that is in the cache.
func TestSummarisedThread(t *testing.T) {
	s := e2e.NewSite(t, "")
	s.Model.SetWindow(272_000)
	t.Cleanup(s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		return saying("Well."), strings.HasPrefix(r.UserText(), "FACT")
	}))
	edit := e2e.Fields{"type": "compact_20260112", "trigger": e2e.Fields{"type": "input_tokens", "value": 50_000}}
	answers := runSDK(s, e2e.Fields{"context_management": e2e.Fields{"edits": []any{edit}}}, "",
		"FACT f0 = v0\n"+strings.Repeat("word ", 48_000), "FACT f1 = v1\n"+strings.Repeat("word ", 6000), "FACT f2 = v2", "RECALL f0")
	for i, want := range []string{"text end_turn", "compaction text end_turn", "text end_turn", "text end_turn"} {
		if got := blocksOf(answers[i][0]); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
		if u := answers[i][0].Message.Usage; i > 1 && float64(*u.CacheRead) < 0.9*float64(*u.Input+*u.CacheRead) {
			t.Errorf("%d: the usage %d %d", i, *u.Input, *u.CacheRead)
		}
	}
}
