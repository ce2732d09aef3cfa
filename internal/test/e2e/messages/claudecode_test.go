package messages

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// says makes the model answer a session's requests in turn, but those that contain a key of others.
func says(t *testing.T, s *e2e.Site, others map[string]scriptedmodel.Script, steps ...scriptedmodel.Script) {
	t.Helper()
	var mu sync.Mutex
	n := 0
	t.Cleanup(s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		mu.Lock()
		defer mu.Unlock()
		for key, script := range others {
			if strings.Contains(string(r.Body), key) {
				return script, true
			}
		}
		if !slices.ContainsFunc(r.Tools, func(t scriptedmodel.Tool) bool { return t.Name == "Bash" }) {
			return saying(`{"title":"A session"}`), true
		}
		if n++; n > len(steps) {
			return saying("There are no more steps."), true
		}
		return steps[n-1], true
	}))
}

func saying(text string) scriptedmodel.Script {
	return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say(text)}}
}

func calling(calls ...scriptedmodel.Output) scriptedmodel.Script {
	return scriptedmodel.Script{Output: calls}
}

func use(name, format string, args ...any) scriptedmodel.Call {
	return scriptedmodel.Call{Name: name, Arguments: fmt.Sprintf(format, args...)}
}

// TestClaudeCode lets Claude Code write, edit and run, with parallel, failing and odd calls.
func TestClaudeCode(t *testing.T) {
	s := e2e.NewSite(t, "")
	c := newClaude(t, s)
	file := filepath.Join(c.Dir, "grüße.txt")
	const text = "héllo \\\"wörld\\\" \\u2028 😀 <use_tool> \\\\n"
	// Codex itself answers a call that is no JSON, and may ask again before the turn is cut.
	unheard := map[string]scriptedmodel.Script{"failed to parse function arguments": saying("Nobody hears this.")}
	says(t, s, unheard,
		calling(scriptedmodel.Reason("Hm."), scriptedmodel.Say("I write 😀."), use("Write", `{"file_path":%q,"content":"%s"}`, file, text)),
		calling(use("Edit", `{"file_path":%q,"old_string":"héllo","new_string":"adieu"}`, file), use("Bash", `{"command":"echo ran > ran.txt; exit 3","description":"run"}`)),
		calling(use("Read", `{"file_path":"/nowhere"}`), use("Bash", `{"command":"cat ran.txt"}`)),
		calling(use("Bash", `{"command":`)), // no JSON
		saying("All is done 😀."),
	)
	if r := c.run("Do it."); r.IsError || r.Result != "All is done 😀." {
		t.Fatalf("%+v", r)
	}
	written, err := os.ReadFile(file)
	if err != nil || string(written) != "adieu \"wörld\" \u2028 😀 <use_tool> \\n" {
		t.Errorf("%q %v", written, err)
	}
	lines, _ := given(s)
	all := strings.Join(lines, "\n")
	for _, want := range []string{"result Exit code 3", "result ran", "File does not exist", `call Bash{"command":` + "\n"} {
		if !strings.Contains(all, want) {
			t.Errorf("the model lacks %q in\n%s", want, all)
		}
	}
}

// TestClaudeCodeReads: of an image and a PDF the model is told what is missing.
func TestClaudeCodeReads(t *testing.T) {
	s := e2e.NewSite(t, "")
	c := newClaude(t, s)
	var picture bytes.Buffer
	must.OK(t, png.Encode(&picture, image.NewRGBA(image.Rect(0, 0, 40, 40))))
	for name, content := range map[string][]byte{"a.png": picture.Bytes(), "a.pdf": []byte(smallPDF)} {
		must.OK(t, os.WriteFile(filepath.Join(c.Dir, name), content, 0o600))
	}
	says(t, s, nil,
		calling(use("Read", `{"file_path":%q}`, filepath.Join(c.Dir, "a.png")), use("Read", `{"file_path":%q}`, filepath.Join(c.Dir, "a.pdf"))),
		saying("Read."),
	)
	if r := c.run("Read them."); r.IsError || r.Result != "Read." {
		t.Fatalf("%+v", r)
	}
	request, _ := s.Model.Last()
	if body := string(request.Body); !strings.Contains(body, `"image_url":"data:image/`) {
		t.Errorf("the model has no image: %.3000s", body)
	}
	if body := string(request.Body); !strings.Contains(body, "a PDF, which cannot be read here") {
		t.Errorf("the model is not told of the PDF: %s", body[max(0, len(body)-3000):])
	}
}

// smallPDF is a PDF with one empty page.
const smallPDF = "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"

// TestClaudeCodeSubagent: a subagent has a conversation of its own, and its report comes back.
func TestClaudeCodeSubagent(t *testing.T) {
	s := e2e.NewSite(t, "")
	c := newClaude(t, s)
	first := true
	var mu sync.Mutex
	t.Cleanup(s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		mu.Lock()
		defer mu.Unlock()
		body := string(r.Body)
		switch {
		case !strings.Contains(body, "Delegate it.") && strings.Contains(body, "Count the beans."):
			return saying("There are 7 beans."), true
		case first && strings.Contains(body, "Delegate it."):
			first = false
			return calling(use("Agent", `{"description":"count","prompt":"Count the beans.","subagent_type":"general-purpose","run_in_background":false}`)), true
		case strings.Contains(body, "7 beans"):
			return saying("It has counted 7 beans."), true
		}
		return saying("Waiting."), true
	}))
	if r := c.run("Delegate it."); r.IsError || r.Result != "It has counted 7 beans." {
		t.Fatalf("%+v", r)
	}
}

// TestClaudeCodeCompacts: /compact makes the history a summary, with which the session goes on.
func TestClaudeCodeCompacts(t *testing.T) {
	s := e2e.NewSite(t, "")
	c := newClaude(t, s)
	says(t, s, nil, saying("Seven."), saying("<summary>\nThe number is seven.\n</summary>"), saying("It was seven."))
	if r := c.run("Which number?"); r.IsError || r.Result != "Seven." {
		t.Fatalf("%+v", r)
	}
	if r := c.run("/compact", "--continue"); r.IsError {
		t.Fatalf("%+v", r)
	}
	if r := c.run("And now?", "--continue"); r.IsError || r.Result != "It was seven." {
		t.Fatalf("%+v", r)
	}
	lines, _ := given(s)
	if all := strings.Join(lines, "\n"); !strings.Contains(all, "The number is seven.") || strings.Contains(all, "assistant Seven.") {
		t.Errorf("the model was given\n%s", all)
	}
}

// TestClaudeCodeSearches: its WebSearch is a request of its own, whose links it reads.
func TestClaudeCodeSearches(t *testing.T) {
	s := e2e.NewSite(t, "web_search on")
	c := newClaude(t, s, "ENABLE_TOOL_SEARCH=false")
	found := scriptedmodel.Script{Output: []scriptedmodel.Output{
		scriptedmodel.Search("caddy server"), scriptedmodel.Cite{Text: "Caddy serves.", URL: "https://caddyserver.com/", Title: "Caddy"},
	}}
	says(t, s, map[string]scriptedmodel.Script{`"type":"web_search"`: found}, calling(use("WebSearch", `{"query":"caddy server"}`)), saying("Found."))
	if r := c.run("Search."); r.IsError || r.Result != "Found." {
		t.Fatalf("%+v", r)
	}
	lines, _ := given(s)
	if last := lines[len(lines)-1]; !strings.Contains(last, "https://caddyserver.com/") || !strings.Contains(last, "Caddy serves.") {
		t.Errorf("the result of the search is %q", strings.Join(lines[max(0, len(lines)-3):], "\n"))
	}
}

// TestClaudeCodeFailures: what Claude Code does when answers fail.
func TestClaudeCodeFailures(t *testing.T) {
	s := e2e.NewSite(t, "api_key secret")
	t.Run("a wrong key", func(t *testing.T) {
		c := newClaude(t, s.At(t), "ANTHROPIC_AUTH_TOKEN=wrong")
		if r := c.run("Hello."); !r.IsError || !strings.Contains(r.Result, "Not logged in") || len(c.judge.all()) != 1 {
			t.Errorf("after %d requests: %+v", len(c.judge.all()), r)
		}
	})
	for name, c := range map[string]struct {
		end      scriptedmodel.Script
		result   string // what the user reads
		once     bool   // only the first request fails
		requests int    // of Claude Code; one that fails once may be repeated by Codex instead
	}{
		"an overload":         {scriptedmodel.Script{End: scriptedmodel.HTTPError{Status: 503, RetryAfter: time.Second}}, "Here.", true, 2},
		"a spent plan":        {scriptedmodel.Script{End: scriptedmodel.UsageLimit{ResetsIn: time.Hour, Plan: "plus"}}, "limit", false, 1},
		"a refusal":           {scriptedmodel.Script{End: scriptedmodel.HTTPError{Status: 400, Message: "no such thing"}}, "no such thing", false, 6},
		"a cut stream":        {scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("Half of a long answer")}, End: scriptedmodel.Cut{}}, "Here.", true, 2},
		"a prompt too long":   {scriptedmodel.Script{End: scriptedmodel.Failed{Code: "context_length_exceeded"}}, "rompt is too long", false, 1},
		"a filter":            {scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("No")}, End: scriptedmodel.Incomplete{Reason: "content_filter"}}, "safeguards flagged", false, 2},
		"the limit of output": {scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("Cut")}, End: scriptedmodel.Incomplete{Reason: "max_output_tokens"}}, "Here.", true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.At(t)
			n := 0
			var mu sync.Mutex
			t.Cleanup(s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
				mu.Lock()
				defer mu.Unlock()
				if n++; c.once && n > 1 {
					return saying("Here."), true
				}
				return c.end, true
			}))
			claude := newClaude(t, s, "ANTHROPIC_AUTH_TOKEN=secret")
			r := claude.run("Hello.")
			if asked := len(claude.judge.all()); !strings.Contains(r.Result, c.result) || r.IsError == c.once || asked > c.requests || asked < c.requests && !c.once {
				t.Errorf("after %d requests: %+v", asked, r)
			}
		})
	}
}
