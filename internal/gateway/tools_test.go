package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

const (
	plainPrompt  = "You are helpful."
	taughtPrompt = "Call tools as <use_tool><name>x</name></use_tool>."
)

func decodeChat(t *testing.T, system string, more map[string]any) (*prompt.Conversation, *prompt.Plan) {
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
	request, apiErr := chat.Decode(text)
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	plan, apiErr := request.Plan(prompt.Options{})
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	return request.Asked(), plan
}

func withTools(names ...string) map[string]any {
	var tools []any
	for _, name := range names {
		tools = append(tools, map[string]any{"type": "function", "function": map[string]any{"name": name}})
	}
	return map[string]any{"tools": tools}
}

// withMessages replaces the messages of a request. It takes their roles and contents in turn.
func withMessages(all ...any) map[string]any {
	var list []any
	for i := 0; i < len(all); i += 2 {
		list = append(list, map[string]any{"role": all[i], "content": all[i+1]})
	}
	return map[string]any{"messages": list}
}

func TestMode(t *testing.T) {
	for name, c := range map[string]struct {
		configured turn.Mode
		header     string
		system     string
		more       map[string]any
		want       turn.Mode // empty: refused
	}{
		"not set":                                {"", "", taughtPrompt, nil, turn.ModeXML},
		"auto, an ordinary client":               {turn.ModeAuto, "", plainPrompt, nil, turn.ModeJSON},
		"auto, a prompt that teaches blocks":     {turn.ModeAuto, "", taughtPrompt, nil, turn.ModeXML},
		"auto, such a prompt beside tools":       {turn.ModeAuto, "", taughtPrompt, withTools("f"), turn.ModeJSON},
		"auto, the header":                       {turn.ModeAuto, "openai-json", taughtPrompt, nil, turn.ModeJSON},
		"auto, the other header beside tools":    {turn.ModeAuto, "obsidian-xml", plainPrompt, withTools("f"), turn.ModeXML},
		"auto, as Obsidian Copilot 3.1.1":        {turn.ModeAuto, "", "", withMessages("assistant", taughtPrompt, "user", "hi"), turn.ModeXML},
		"auto, a developer's prompt":             {turn.ModeAuto, "", "", withMessages("developer", []any{map[string]any{"type": "text", "text": taughtPrompt}}, "user", "hi"), turn.ModeXML},
		"auto, a user who speaks of blocks":      {turn.ModeAuto, "", "", withMessages("user", taughtPrompt, "assistant", "I see.", "user", "hi"), turn.ModeJSON},
		"configured":                             {turn.ModeXML, "", plainPrompt, nil, turn.ModeXML},
		"configured, the header goes first":      {turn.ModeXML, "openai-json", plainPrompt, nil, turn.ModeJSON},
		"configured, such a prompt says nothing": {turn.ModeJSON, "", taughtPrompt, nil, turn.ModeJSON},
		"a header of another kind":               {turn.ModeAuto, "xml", plainPrompt, nil, ""},
		"auto is nothing to ask for":             {turn.ModeAuto, "auto", plainPrompt, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			request, plan := decodeChat(t, c.system, c.more)
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			if c.header != "" {
				r.Header.Set("x-proxy-output-mode", c.header)
			}
			gateway := Options{Tools: turn.ToolOptions{OutputMode: c.configured}}
			options, apiErr := gateway.turnOptions(r, request, plan)
			if c.want == "" {
				if apiErr == nil || apiErr.Status != http.StatusBadRequest {
					t.Errorf("got %+v, %v; want a apiErr", options, apiErr)
				}
				return
			}
			if apiErr != nil || options.OutputMode != c.want {
				t.Errorf("got %s, %v; want %s", options.OutputMode, apiErr, c.want)
			}
		})
	}
}

func TestTextual(t *testing.T) {
	const none, listed, all = "none", "listed", "all"
	for name, c := range map[string]struct {
		set    turn.Textual
		mode   turn.Mode
		system string
		more   map[string]any
		want   string
	}{
		"not set":                          {"", turn.ModeXML, plainPrompt, nil, all},
		"auto, no tools":                   {turn.TextualAuto, turn.ModeJSON, plainPrompt, nil, none},
		"auto, tools":                      {turn.TextualAuto, turn.ModeJSON, plainPrompt, withTools("f", "mcp__g"), listed},
		"auto, taught":                     {turn.TextualAuto, turn.ModeJSON, taughtPrompt, withTools("f"), all},
		"auto, Obsidian":                   {turn.TextualAuto, turn.ModeXML, plainPrompt, nil, all},
		"auto, tools that may not be used": {turn.TextualAuto, turn.ModeJSON, plainPrompt, with(withTools("f"), "tool_choice", "none"), none},
		"on":                               {turn.TextualOn, turn.ModeJSON, plainPrompt, nil, all},
		"off":                              {turn.TextualOff, turn.ModeXML, taughtPrompt, nil, none},
	} {
		t.Run(name, func(t *testing.T) {
			request, plan := decodeChat(t, c.system, c.more)
			gateway := Options{Tools: turn.ToolOptions{OutputMode: c.mode, TextualTools: c.set}}
			o, apiErr := gateway.turnOptions(httptest.NewRequest(http.MethodPost, "/", nil), request, plan)
			if apiErr != nil {
				t.Fatal(apiErr)
			}
			got := none
			switch {
			case o.TextualTools == turn.TextualOn && o.AcceptTextual == nil:
				got = all
			case o.TextualTools == turn.TextualOn:
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

func TestParallelToolCalls(t *testing.T) {
	for name, c := range map[string]struct {
		configured *bool
		more       map[string]any
		want       bool
	}{
		"the default":         {nil, nil, true},
		"the operator's wish": {new(false), map[string]any{"parallel_tool_calls": true}, false},
		"the client's wish":   {new(true), map[string]any{"parallel_tool_calls": false}, false},
	} {
		request, plan := decodeChat(t, plainPrompt, c.more)
		gateway := Options{Tools: turn.ToolOptions{ParallelToolCalls: c.configured}}
		o, apiErr := gateway.turnOptions(httptest.NewRequest(http.MethodPost, "/", nil), request, plan)
		if got := o.ParallelToolCalls == nil || *o.ParallelToolCalls; apiErr != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", name, got, apiErr, c.want)
		}
	}
}

// TestToolOverrides: each setting that differs from its default has a name in the log.
func TestToolOverrides(t *testing.T) {
	defaults := Options{StopGrace: turn.DefaultGrace, Tools: turn.ToolOptions{
		OutputMode: turn.ModeAuto, StopAfterTools: turn.StopBurst, SuppressTailAfterTools: new(true), TextualTools: turn.TextualAuto,
		ParallelToolCalls: new(true), XMLEscape: usetool.EscapeLiteral,
	}}
	plain := httptest.NewRequest(http.MethodPost, "/", nil)
	if set := (&Gateway{overrides: defaults.toolOverrides()}).toolOverrides(plain, &prompt.Plan{}); len(set) != 0 {
		t.Errorf("the defaults are overrides: %q", set)
	}
	chosen := httptest.NewRequest(http.MethodPost, "/", nil)
	chosen.Header.Set("x-proxy-output-mode", "openai-json")
	all := Options{
		StopGrace: time.Second, Patterns: []aggregator.NamedPattern{{Name: "tool_call"}},
		Tools: turn.ToolOptions{
			OutputMode: turn.ModeXML, StopAfterTools: turn.StopFirst, SuppressTailAfterTools: new(false), TextualTools: turn.TextualOn,
			ToolBlockMax: 2, ToolBlockDedup: true, ToolBlockDelimiter: "\n--", ParallelToolCalls: new(false), XMLEscape: usetool.EscapeEntities,
		},
	}
	want := []string{
		"output_mode=obsidian-xml", "stop_after_tools=first", "stop_after_tools_grace=1s", "suppress_tail_after_tools=off", "textual_tools=on",
		"textual_pattern=tool_call", "tool_block_max=2", "tool_block_dedup=on", `tool_block_delimiter="\n--"`, "parallel_tool_calls=off",
		"xml_escape=entities", "x-proxy-output-mode=openai-json", "request.parallel_tool_calls=false",
	}
	g := &Gateway{overrides: all.toolOverrides()}
	for range 2 { // what one request has chosen is not in the next one's
		if set := g.toolOverrides(chosen, &prompt.Plan{Settings: prompt.Settings{SerialTools: true}}); !slices.Equal(set, want) {
			t.Errorf("%q\nwant\n%q", set, want)
		}
	}
	if set := g.toolOverrides(plain, &prompt.Plan{}); !slices.Equal(set, want[:len(want)-2]) {
		t.Errorf("%q\nwant\n%q", set, want[:len(want)-2])
	}
}
