package gateway

import (
	"net/http"
	"strconv"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// toolOverrides returns the settings of tool calls that differ from the defaults, as
// name=value for the log: those of the configuration, and behind them those that a
// request has chosen itself, with the names that they have there.
func (o *Options) toolOverrides(r *http.Request, plan *prompt.Plan) []string {
	var set []string
	add := func(differs bool, name, value string) {
		if differs {
			set = append(set, name+"="+value)
		}
	}
	tools := &o.Tools
	off := func(value *bool) bool { return value != nil && !*value }
	add(tools.OutputMode != "" && tools.OutputMode != turn.ModeAuto, "output_mode", string(tools.OutputMode))
	add(tools.StopAfterTools != "" && tools.StopAfterTools != turn.StopBurst, "stop_after_tools", string(tools.StopAfterTools))
	add(tools.StopAfterTools != turn.StopOff && o.StopGrace != turn.DefaultGrace, "stop_after_tools_grace", o.StopGrace.String())
	add(off(tools.SuppressTailAfterTools), "suppress_tail_after_tools", "off")
	add(tools.TextualTools != "" && tools.TextualTools != turn.TextualAuto, "textual_tools", string(tools.TextualTools))
	for _, p := range o.Patterns {
		add(true, "textual_pattern", p.Name)
	}
	add(tools.ToolBlockMax > 0, "tool_block_max", strconv.Itoa(tools.ToolBlockMax))
	add(tools.ToolBlockDedup, "tool_block_dedup", "on")
	add(tools.ToolBlockDelimiter != "", "tool_block_delimiter", strconv.Quote(tools.ToolBlockDelimiter))
	add(off(tools.ParallelToolCalls), "parallel_tool_calls", "off")
	add(tools.XMLEscape != "" && tools.XMLEscape != usetool.EscapeLiteral, "xml_escape", string(tools.XMLEscape))
	add(r.Header.Get(modeHeader) != "", "x-proxy-output-mode", r.Header.Get(modeHeader))
	add(!plan.ParallelToolCalls, "request.parallel_tool_calls", "false")
	return set
}
