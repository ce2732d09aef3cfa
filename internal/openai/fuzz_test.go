package openai

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// FuzzPlan sends any body. What is refused must be refused in OpenAI's shape;
// what is accepted must give a plan that Codex can read.
func FuzzPlan(f *testing.F) {
	for _, body := range []string{
		withFields(`"stream":true,"stream_options":{"include_usage":true}`),
		withTool(`{"name":"exec","parameters":{"type":"object"}}`, `,"tool_choice":"required"`),
		withMessages(`{"role":"system","content":"s"},{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"mcp__f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"r"}]}`),
		withMessages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + pngURL + `","detail":"low"}}]},{"role":"user","content":"\ud83d"}`),
		withRemoteImages,
		withFields(`"n":8,"stop":["a","b"],"max_tokens":7,"functions":[{"name":"mcp","parameters":{}}],"function_call":{"name":"mcp"}`),
		withMessages(`{"role":"assistant","content":"x","refusal":"y","function_call":{"name":"f","arguments":""}},{"role":"function","name":"f","content":[]}`),
		withFields(`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{ "a": [1] }}}`),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		given := string(body)
		r, refusal := DecodeChat(body)
		if string(body) != given {
			t.Fatal("the body was changed")
		}
		if refusal != nil {
			if refusal.Status != http.StatusBadRequest || refusal.Type != typeInvalidRequest || refusal.Message == "" || !json.Valid(refusal.Body()) {
				t.Fatalf("refused by %+v", refusal)
			}
			return
		}
		if r.model == "" {
			t.Fatal("a request without a model was accepted")
		}
		p, refusal := r.Plan(PlanOptions{})
		if remote := r.RemoteImages(); len(remote) > 0 {
			if refusal == nil || refusal.Status != http.StatusBadRequest || refusal.Param == "" {
				t.Fatalf("remote images %q, refused by %+v", remote, refusal)
			}
			fetched := map[string]string{}
			for _, url := range remote {
				fetched[url] = pngURL
			}
			r.SetImages(fetched)
			p, refusal = r.Plan(PlanOptions{})
		}
		if refusal != nil {
			t.Fatalf("no plan: %v", refusal)
		}
		checkPlan(t, p)
	})
}

// checkPlan checks what must hold for every plan.
func checkPlan(t *testing.T, p *Plan) {
	t.Helper()
	for _, item := range p.History {
		if v, err := jsontext.Parse(item); err != nil || !bytes.Equal(v, item) {
			t.Fatalf("item %q: %v", item, err)
		}
	}
	if p.Turn.Input == nil || p.Thread.Environments == nil || *p.Thread.BaseInstructions == "" {
		t.Fatalf("plan %+v", p)
	}
	if p.Choices < 1 || p.Choices > maxChoices || len(p.StopSequences) > maxStops || slices.Contains(p.StopSequences, "") ||
		p.MaxTokens < 0 || p.LegacyFunctions && p.ParallelToolCalls {
		t.Fatalf("plan %+v", p)
	}
	codex, client := map[string]bool{}, map[string]bool{}
	for _, tool := range p.Thread.DynamicTools {
		name, ok := p.Tools.ClientName(tool.Name)
		if !ok || codex[tool.Name] || client[name] || !isToolName(tool.Name) || isReserved(tool.Name) {
			t.Fatalf("tool %q of the client's %q", tool.Name, name)
		}
		codex[tool.Name], client[name] = true, true
		if jsontext.Value(tool.InputSchema).Kind() != jsontext.KindObject {
			t.Fatalf("schema %q", tool.InputSchema)
		}
	}
	for _, params := range []any{p.Thread, p.Turn} {
		line, err := json.Marshal(params)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := jsontext.Parse(line); err != nil || !bytes.Equal(v, line) {
			t.Fatalf("parameters %q: %v", line, err)
		}
	}
}
