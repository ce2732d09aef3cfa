package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/ollama"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/ollamacheck"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// asOllama answers a request with the errors of Ollama's API.
func asOllama(g *Gateway, path, body string) *httptest.ResponseRecorder {
	r := posting(path, body)
	return answerTo(g, r.WithContext(context.WithValue(r.Context(), apierror.EncoderKey{}, apierror.Encoder(ollama.EncodeError))))
}

func answered(t *testing.T, w *httptest.ResponseRecorder, stream bool) *ollamacheck.Answer {
	t.Helper()
	read, want := ollamacheck.Whole, "application/json"
	if stream {
		read, want = func(body []byte, generate bool) (*ollamacheck.Answer, error) {
			return ollamacheck.Stream(string(body), generate)
		}, "application/x-ndjson"
	}
	a, err := read(w.Body.Bytes(), false)
	if kind := w.Header().Get("Content-Type"); err != nil || w.Code != http.StatusOK || kind != want {
		t.Fatalf("%d %s %v: %s", w.Code, kind, err, w.Body)
	}
	return a
}

// TestOllamaCalls: structured and textual calls come once and in order, streamed and whole.
func TestOllamaCalls(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"structured":            {[]string{callBegun("c", "f"), argumentsPart("c", `{"q":`), argumentsPart("c", ` 1}`), rawCall("i", "c", "f", `{"q": 1}`), rawCall("j", "d", "g", "")}, ` f{"q":1} g{}`},
		"a block":               {[]string{textPart("Hm <use_tool><name>f</name>"), textPart("<q>1</q></use_tool> so")}, `Hm  f{"q":"1"}`},
		"a block and its twin":  {[]string{textPart("<use_tool><name>f</name><q>1</q></use_tool>"), rawCall("i", "c", "f", `{"q": 1}`)}, ` f{"q":"1"}`},
		"a block and a call":    {[]string{textPart("<use_tool><name>g</name></use_tool>"), rawCall("i", "c", "f", `{"q":2}`)}, ` g{} f{"q":2}`},
		"a block of no tool":    {[]string{textPart("<use_tool><name>h</name></use_tool>")}, `<use_tool><name>h</name></use_tool>`},
		"a call with a newline": {[]string{rawCall("i", "c", "f", "{\n\"q\":\"a\\nb\"\n}")}, ` f{"q":"a\nb"}`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, stream := range []bool{true, false} {
				w := askCalls(t, calling(t, c.lines...), turn.ToolOptions{}, "/api/chat", fmt.Sprintf(chatCalls, stream))
				a := answered(t, w, stream)
				got := a.Text
				for _, call := range a.Calls {
					got += " " + call.Function.Name + "{"
					for name, v := range call.Function.Arguments {
						got += fmt.Sprintf("%q:%s", name, v)
					}
					got += "}"
				}
				if got != c.want || a.Reason != "stop" {
					t.Errorf("stream %t: %s, want %s (%s)", stream, got, c.want, a.Reason)
				}
			}
		})
	}
}

// TestOllamaArguments: arguments that are no object end an answer with an error, whenever they come.
func TestOllamaArguments(t *testing.T) {
	const want = `{"error":"The model has called the tool \"f\" with arguments that are not a JSON object, or are nested too deeply. Please try again."}`
	for _, c := range []struct {
		lines  []string
		stream bool
		status int
		ahead  string
	}{
		{[]string{rawCall("i", "c", "f", "[1]")}, false, http.StatusBadGateway, ""},
		{[]string{rawCall("i", "c", "f", "[1]")}, true, http.StatusOK, ""},
		{[]string{textPart("Hm."), rawCall("i", "c", "f", `{"a":`)}, false, http.StatusBadGateway, ""},
		{[]string{textPart("Hm."), rawCall("i", "c", "f", `{"a":`)}, true, http.StatusOK, `"content":"Hm."`},
	} {
		g := newGateway(calling(t, c.lines...), Options{MaxConcurrent: 2})
		w := asOllama(g, "/api/chat", fmt.Sprintf(chatCalls, c.stream))
		ahead, found := strings.CutSuffix(strings.TrimSpace(w.Body.String()), want)
		if w.Code != c.status || !found || !strings.Contains(ahead, c.ahead) || c.ahead == "" && ahead != "" {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
		if held := g.Held(); held != (Held{}) {
			t.Errorf("%+v leaves %+v", c, held)
		}
	}
}

// TestOllamaLoads: a request without a question is answered without a turn.
func TestOllamaLoads(t *testing.T) {
	seen := new(witness)
	g := newGateway(talkative(t, 1), Options{MaxConcurrent: 1, Observer: seen})
	for body, want := range map[string]string{
		`{"model":"m","messages":[]}`:                                 "load",
		`{"model":"m","messages":[],"stream":false}`:                  "load",
		`{"model":"m","messages":[],"stream":false,"keep_alive":"0"}`: "unload",
	} {
		w := asOllama(g, "/api/chat", body)
		if a := answered(t, w, !strings.Contains(body, `"stream"`)); a.Reason != want || a.Lines > 1 {
			t.Errorf("%s: %s", body, w.Body)
		}
	}
	if n := len(seen.turns); n > 0 {
		t.Errorf("%d turns", n)
	}
	if held := g.Held(); held != (Held{}) {
		t.Errorf("%+v is left", held)
	}
}

// TestLatest: names with the tag that Ollama's clients append, on every route, and also for keys
// that allow some models only. Without the option they stay what they are.
func TestLatest(t *testing.T) {
	u := talkative(t, 1)
	const ask = `{"model":"%s","messages":[{"role":"user","content":"x"}]}`
	key := &quota.Key{ID: "k", Models: []string{"mine", "exact:latest"}}
	for _, c := range []struct {
		on     bool
		model  string
		status int
	}{
		{true, "mine", 200}, {true, "mine:latest", 200}, {true, "exact:latest", 200}, {true, "exact", 404},
		{true, "mine:8b", 404}, {true, "other:latest", 404}, {false, "mine:latest", 404}, {false, "mine", 200},
	} {
		g := newGateway(u, Options{
			MaxConcurrent: 1, Ollama: c.on, Aliases: []prompt.Alias{{ID: "mine", Model: "gpt-x"}, {ID: "exact:latest", Model: "gpt-y"}},
			Key: func(*http.Request) (*quota.Key, *apierror.Error) { return key, nil }, Limits: quota.NewLimits(quota.NewLedger(time.Now), 0, true),
		})
		if codexModel, _, _ := g.resolveModel(c.model); c.status == 200 && codexModel != map[bool]string{true: "gpt-x", false: "gpt-y"}[strings.HasPrefix(c.model, "mine")] {
			t.Errorf("%+v is %s", c, codexModel)
		}
		for _, path := range []string{chatPath, "/api/chat", "/api/show", "/api/pull"} {
			if w := asOllama(g, path, fmt.Sprintf(ask, c.model)); w.Code != c.status {
				t.Errorf("%+v at %s: %d %s", c, path, w.Code, w.Body)
			}
		}
		w := httptest.NewRecorder()
		if g.Model(w, httptest.NewRequest(http.MethodGet, "/v1/models", nil), c.model); w.Code != c.status {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
	}
}
