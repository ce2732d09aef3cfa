package conversations

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// toolUsageOf is the part of /v1/usage that counts tool calls.
type toolUsage struct {
	ToolCalls struct {
		Total, Truncated, Duplicates, Unwritable int
	} `json:"tool_calls"`
	Buffers toolBuffers `json:"tool_buffer_metrics"`
}

type toolBuffers struct {
	Started  int            `json:"tool_buffer_started"`
	Flushed  int            `json:"tool_buffer_flushed"`
	Aborted  int            `json:"tool_buffer_aborted"`
	ByReason map[string]int `json:"aborted_by_reason"`
}

func toolUsageOf(s *e2e.Site) (u toolUsage) {
	s.T.Helper()
	s.GetJSON("/v1/usage", &u)
	return u
}

// scrape returns the metrics of tools by name and labels.
func scrape(s *e2e.Site) map[string]int {
	s.T.Helper()
	values := make(map[string]int)
	for name, n := range s.Samples() {
		if strings.HasPrefix(name, "codex_tool_") {
			values[name] = int(n)
		}
	}
	return values
}

// countedTurns are prompts of turns that are counted in different ways.
var countedTurns = []string{
	`usetool:2 localSearch {"query":"%d"}`,
	"verbatim:<use_tool><name>a" + useTool("localSearch", "a"),
	"verbatim:<use_tool></use_tool>",
	"verbatim:<use_tool><name>",
	`usetool:localSearch {"query":"a"}; tool:localSearch {"query":"a"}`,
	`tool:4 localSearch {"query":"%d"}`,
}

// counted holds what the countedTurns add.
var counted = map[string]int{
	"codex_tool_buffer_started_total":                      2 + 2 + 1 + 1 + 1,
	"codex_tool_buffer_flushed_total":                      2 + 1 + 1,
	`codex_tool_buffer_aborted_total{reason="nested"}`:     1,
	`codex_tool_buffer_aborted_total{reason="malformed"}`:  1,
	`codex_tool_buffer_aborted_total{reason="unclosed"}`:   1,
	"codex_tool_calls_total":                               2 + 1 + 1 + 3,
	"codex_tool_calls_truncated_total":                     1,
	"codex_tool_calls_duplicate_total":                     1,
	"codex_tool_calls_unwritable_total":                    0,
	`codex_tool_buffer_aborted_total{reason="undeclared"}`: 0,
	`codex_tool_buffer_aborted_total{reason="disconnect"}`: 0,
	`codex_tool_buffer_aborted_total{reason="error"}`:      0,
}

// TestToolCounts: metrics and usage agree, and go on after a reload that changes the options.
func TestToolCounts(t *testing.T) {
	s := e2e.NewSite(t, "")
	s.Load(s.WithMetrics("tool_block_max 3\n" + e2e.Patient))
	e2e.WaitFor(t, "the metrics", func() bool {
		status, _ := s.Get("/metrics")
		return status == http.StatusOK
	})
	metrics, usage := scrape(s), toolUsageOf(s)
	for round := 1; round <= 2; round++ {
		for i, prompt := range countedTurns {
			s.Ask(e2e.Question{Prompt: prompt, Mode: e2e.ModeXML, Tools: true}, i%2 == 0)
		}
		got := scrape(s)
		for name, n := range counted {
			if added := got[name] - metrics[name]; added != round*n {
				t.Errorf("round %d: %s has grown by %d; want %d", round, name, added, round*n)
			}
		}
		checkToolUsage(t, round, usage, toolUsageOf(s))
		s.Load(s.WithMetrics("tool_block_max 3\nkeepalive 20s\n" + e2e.Patient))
		e2e.WaitFor(t, "the values to go on", func() bool {
			return maps.Equal(got, scrape(s))
		})
	}
}

func checkToolUsage(t *testing.T, rounds int, before, after toolUsage) {
	t.Helper()
	got := toolUsage{Buffers: toolBuffers{
		Started: after.Buffers.Started - before.Buffers.Started,
		Flushed: after.Buffers.Flushed - before.Buffers.Flushed,
		Aborted: after.Buffers.Aborted - before.Buffers.Aborted,
	}}
	got.ToolCalls.Total = after.ToolCalls.Total - before.ToolCalls.Total
	got.ToolCalls.Truncated = after.ToolCalls.Truncated - before.ToolCalls.Truncated
	got.ToolCalls.Duplicates = after.ToolCalls.Duplicates - before.ToolCalls.Duplicates
	want := fmt.Sprint(7*rounds, rounds, rounds, 7*rounds, 4*rounds, 3*rounds)
	if have := fmt.Sprint(got.ToolCalls.Total, got.ToolCalls.Truncated, got.ToolCalls.Duplicates, got.Buffers.Started, got.Buffers.Flushed, got.Buffers.Aborted); have != want {
		t.Errorf("calls, truncated, duplicates, started, flushed, aborted are %s; want %s", have, want)
	}
	for _, reason := range []string{"nested", "malformed", "unclosed"} {
		if n := after.Buffers.ByReason[reason] - before.Buffers.ByReason[reason]; n != rounds {
			t.Errorf("aborted as %s: %d; want %d", reason, n, rounds)
		}
	}
}

// TestToolLog: outcomes of blocks and calls are logged with request id and choice, not content.
func TestToolLog(t *testing.T) {
	s := e2e.NewSite(t, "")
	path := filepath.Join(t.TempDir(), "caddy.log")
	s.Load(strings.Replace(s.Caddyfile("tool_block_max 1"), "admin off", "log {\noutput file "+path+" {\nroll_disabled\n}\nlevel DEBUG\nformat json\n}\nadmin off", 1))
	s.WaitReady()
	header := http.Header{"X-Request-Id": {"req-logged"}, "X-Proxy-Output-Mode": {e2e.ModeXML}}
	e2e.WaitFor(t, "the new configuration to answer", func() bool {
		response, _ := s.Post(e2e.ChatBody("chunk=all; verbatim:<use_tool>secret"+strings.Repeat(useTool("localSearch", "secret"), 2), nil), header)
		return response.Header.Get("X-Codex-Tool-Call-Truncated") == "true"
	})
	var aborted, calls map[string]any
	e2e.WaitFor(t, "the lines in the log", func() bool {
		aborted, calls = e2e.LogLine(t, path, "a begun tool block was no call"), e2e.LogLine(t, path, "turn")
		return aborted != nil && calls != nil
	})
	if aborted["reason"] != "nested" || aborted["blocks"] != 1.0 || aborted["level"] != "warn" {
		t.Errorf("%v", aborted)
	}
	for key, want := range map[string]any{
		"tool_calls": 1.0, "tool_calls_truncated": true, "stop_after_tools": "burst", "tool_blocks_started": 3.0, "tool_blocks_flushed": 2.0,
		"tool_blocks_aborted": 1.0, "tool_calls_duplicate": 0.0, "tool_tail_bytes": 0.0, "output_mode": e2e.ModeXML,
		"tool_overrides": []any{"tool_block_max=1", "x-proxy-output-mode=obsidian-xml"},
	} {
		if !reflect.DeepEqual(calls[key], want) {
			t.Errorf("%s is %v; want %v", key, calls[key], want)
		}
	}
	for _, line := range []map[string]any{aborted, calls} {
		if line["request_id"] != "req-logged" || line["choice"] != 0.0 || strings.Contains(fmt.Sprint(line), "secret") {
			t.Errorf("%v", line)
		}
	}
}
