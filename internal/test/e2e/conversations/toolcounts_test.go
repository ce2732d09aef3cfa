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
	"github.com/tidwall/gjson"
)

// toolCounts returns what is counted of tools: metrics by name and labels, members of /v1/usage by path.
func toolCounts(s *e2e.Site) map[string]int {
	s.T.Helper()
	values := make(map[string]int)
	for name, n := range s.Samples() {
		if strings.HasPrefix(name, "codex_tool_") {
			values[name] = int(n)
		}
	}
	_, usage := s.Get("/v1/usage")
	for _, part := range []string{"tool_calls", "tool_buffer_metrics", "tool_buffer_metrics.aborted_by_reason"} {
		gjson.Get(usage, part).ForEach(func(name, n gjson.Result) bool {
			values[part+"."+name.Str] = int(n.Int())
			return true
		})
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

	"tool_calls.total":                                7,
	"tool_calls.truncated":                            1,
	"tool_calls.duplicates":                           1,
	"tool_buffer_metrics.tool_buffer_started":         7,
	"tool_buffer_metrics.tool_buffer_flushed":         4,
	"tool_buffer_metrics.tool_buffer_aborted":         3,
	"tool_buffer_metrics.aborted_by_reason.nested":    1,
	"tool_buffer_metrics.aborted_by_reason.malformed": 1,
	"tool_buffer_metrics.aborted_by_reason.unclosed":  1,
}

// TestToolCounts: metrics and usage agree, and go on after a reload that changes the options.
func TestToolCounts(t *testing.T) {
	s := e2e.NewSite(t, "")
	s.Load(s.WithMetrics("tool_block_max 3\n" + e2e.Patient))
	e2e.WaitFor(t, "the metrics", func() bool {
		status, _ := s.Get("/metrics")
		return status == http.StatusOK
	})
	before := toolCounts(s)
	for round := 1; round <= 2; round++ {
		for i, prompt := range countedTurns {
			s.Ask(e2e.Question{Prompt: prompt, Mode: e2e.ModeXML, Tools: true}, i%2 == 0)
		}
		got := toolCounts(s)
		for name, n := range counted {
			if added := got[name] - before[name]; added != round*n {
				t.Errorf("round %d: %s has grown by %d; want %d", round, name, added, round*n)
			}
		}
		s.Load(s.WithMetrics("tool_block_max 3\nkeepalive 20s\n" + e2e.Patient))
		e2e.WaitFor(t, "the values to go on", func() bool { return maps.Equal(got, toolCounts(s)) })
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
