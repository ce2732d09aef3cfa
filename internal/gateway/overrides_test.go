package gateway

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

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
