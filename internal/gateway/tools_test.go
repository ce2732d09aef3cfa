package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

const (
	plainPrompt  = "You are helpful."
	taughtPrompt = "Call tools as <use_tool><name>x</name></use_tool>."
)

// chatRequest is a decoded request and its plan.
func chatRequest(t *testing.T, system string, more map[string]any) (*openai.ChatRequest, *openai.Plan) {
	t.Helper()
	body := map[string]any{
		"model": "gpt-5",
		"messages": []any{
			map[string]any{"role": "system", "content": system},
			map[string]any{"role": "user", "content": "hi"},
		},
	}
	for key, value := range more {
		body[key] = value
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, refusal := openai.DecodeChat(text)
	if refusal != nil {
		t.Fatal(refusal)
	}
	plan, refusal := request.Plan(openai.PlanOptions{})
	if refusal != nil {
		t.Fatal(refusal)
	}
	return request, plan
}

func withTools(names ...string) map[string]any {
	var tools []any
	for _, name := range names {
		tools = append(tools, map[string]any{"type": "function", "function": map[string]any{"name": name}})
	}
	return map[string]any{"tools": tools}
}

func TestMode(t *testing.T) {
	for name, c := range map[string]struct {
		configured turn.Mode
		header     string
		system     string
		more       map[string]any
		want       turn.Mode // empty: refused
	}{
		"auto, an ordinary client":               {ModeAuto, "", plainPrompt, nil, turn.ModeJSON},
		"auto, a prompt that teaches blocks":     {ModeAuto, "", taughtPrompt, nil, turn.ModeXML},
		"auto, such a prompt beside tools":       {ModeAuto, "", taughtPrompt, withTools("f"), turn.ModeJSON},
		"auto, the header":                       {ModeAuto, "openai-json", taughtPrompt, nil, turn.ModeJSON},
		"configured":                             {turn.ModeXML, "", plainPrompt, nil, turn.ModeXML},
		"configured, the header goes first":      {turn.ModeXML, "openai-json", plainPrompt, nil, turn.ModeJSON},
		"configured, such a prompt says nothing": {turn.ModeJSON, "", taughtPrompt, nil, turn.ModeJSON},
		"a header of another kind":               {ModeAuto, "xml", plainPrompt, nil, ""},
		"auto is nothing to ask for":             {ModeAuto, "auto", plainPrompt, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			request, plan := chatRequest(t, c.system, c.more)
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			if c.header != "" {
				r.Header.Set("x-proxy-output-mode", c.header)
			}
			tools := Tools{Mode: c.configured}
			options, refusal := tools.turnOptions(r, request, plan)
			if c.want == "" {
				if refusal == nil || refusal.Status != http.StatusBadRequest {
					t.Errorf("got %+v, %v; want a refusal", options, refusal)
				}
				return
			}
			if refusal != nil || options.Mode != c.want {
				t.Errorf("got %s, %v; want %s", options.Mode, refusal, c.want)
			}
		})
	}
}

func TestTextual(t *testing.T) {
	const none, listed, all = "none", "listed", "all"
	for name, c := range map[string]struct {
		set    Textual
		mode   turn.Mode
		system string
		more   map[string]any
		want   string
	}{
		"auto, no tools":                   {TextualAuto, turn.ModeJSON, plainPrompt, nil, none},
		"auto, tools":                      {TextualAuto, turn.ModeJSON, plainPrompt, withTools("f", "mcp__g"), listed},
		"auto, taught":                     {TextualAuto, turn.ModeJSON, taughtPrompt, withTools("f"), all},
		"auto, Obsidian":                   {TextualAuto, turn.ModeXML, plainPrompt, nil, all},
		"auto, tools that may not be used": {TextualAuto, turn.ModeJSON, plainPrompt, with(withTools("f"), "tool_choice", "none"), none},
		"on":                               {TextualOn, turn.ModeJSON, plainPrompt, nil, all},
		"off":                              {TextualOff, turn.ModeXML, taughtPrompt, nil, none},
	} {
		t.Run(name, func(t *testing.T) {
			request, plan := chatRequest(t, c.system, c.more)
			tools := Tools{Mode: c.mode, Textual: c.set}
			o, refusal := tools.turnOptions(httptest.NewRequest(http.MethodPost, "/", nil), request, plan)
			if refusal != nil {
				t.Fatal(refusal)
			}
			got := none
			switch {
			case o.Textual && o.AcceptTextual == nil:
				got = all
			case o.Textual:
				got = listed
				if !o.AcceptTextual("f") || !o.AcceptTextual("mcp__g") || o.AcceptTextual("h") {
					t.Error("the wrong names are accepted")
				}
			}
			if got != c.want {
				t.Errorf("%s blocks are calls; want %s", got, c.want)
			}
		})
	}
}

func with(m map[string]any, key string, value any) map[string]any {
	m[key] = value
	return m
}

func TestOneCallAtMost(t *testing.T) {
	for name, c := range map[string]struct {
		tools Tools
		more  map[string]any
		want  int
	}{
		"no limit":            {Tools{}, nil, 0},
		"the operator's":      {Tools{Max: 3}, nil, 3},
		"the operator's wish": {Tools{Max: 3, Serial: true}, nil, 1},
		"the client's wish":   {Tools{Max: 3}, map[string]any{"parallel_tool_calls": false}, 1},
	} {
		request, plan := chatRequest(t, plainPrompt, c.more)
		c.tools.Mode = turn.ModeJSON
		o, refusal := c.tools.turnOptions(httptest.NewRequest(http.MethodPost, "/", nil), request, plan)
		if refusal != nil || o.MaxCalls != c.want {
			t.Errorf("%s: %d, %v; want %d", name, o.MaxCalls, refusal, c.want)
		}
	}
}
