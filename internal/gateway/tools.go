package gateway

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Answers may have these headers. A request may have modeHeader, to choose the form of tool calls.
const (
	modeHeader      = "X-Proxy-Output-Mode"
	stopHeader      = "X-Codex-Stop-After-Tools-Mode"
	countHeader     = "X-Codex-Tool-Call-Count"
	truncatedHeader = "X-Codex-Tool-Call-Truncated"
)

// toolBlockStart appears in instructions that teach a model to write tool calls as blocks of text.
const toolBlockStart = "<use_tool"

// turnOptions returns the options of a request's turns. They are the gateway's options, but each setting
// that the operator has left automatic has the value that fits this request.
func (o *Options) turnOptions(r *http.Request, request *prompt.Conversation, plan *prompt.Plan) (turn.Options, *apierror.Error) {
	options := turn.Options{
		ToolOptions:   o.Tools,
		ClientName:    plan.Tools.ClientName,
		Patterns:      o.Patterns,
		Grace:         o.StopGrace,
		NoReasoning:   o.NoReasoning,
		WebSearch:     plan.WebSearch,
		Picture:       plan.Picture,
		StopSequences: plan.StopSequences,
		MaxTokens:     plan.MaxTokens,
	}
	if options.Summary = plan.Summary; options.Summary { // what limits an answer does not limit the summary
		options.StopSequences, options.MaxTokens = nil, 0
	}
	teachesBlocks := request.InstructionsContain(toolBlockStart)
	var apiErr *apierror.Error
	if options.OutputMode, apiErr = outputMode(o.Tools.OutputMode, r, teachesBlocks && !request.DeclaresTools()); apiErr != nil {
		return turn.Options{}, apiErr
	}
	options.StopAfterTools = cmp.Or(options.StopAfterTools, turn.StopBurst)
	if plan.SerialTools {
		options.ParallelToolCalls = new(false)
	}
	switch {
	case o.Tools.TextualTools == turn.TextualOn, o.Tools.TextualTools == turn.TextualOff: // as set
	case options.OutputMode == turn.ModeXML, teachesBlocks:
		options.TextualTools = turn.TextualOn
	case len(plan.Thread.DynamicTools) > 0: // blocks may be calls, but only of the request's tools
		options.TextualTools, options.AcceptTextual = turn.TextualOn, offered(plan)
	}
	return options, nil
}

// outputMode returns the form in which the client gets tool calls: the form in the request's header, or
// else the configured form. If both are absent, the form is ModeXML if teachesBlocks is true (the prompt
// itself teaches the model textual calls), and otherwise ModeJSON.
func outputMode(configured turn.Mode, r *http.Request, teachesBlocks bool) (turn.Mode, *apierror.Error) {
	switch asked := turn.Mode(r.Header.Get(modeHeader)); asked {
	case turn.ModeJSON, turn.ModeXML:
		return asked, nil
	case "":
	default:
		return "", apierror.InvalidRequest("", fmt.Sprintf("The header x-proxy-output-mode must be openai-json or obsidian-xml, not %.64s.", asked))
	}
	switch {
	case configured == turn.ModeJSON, configured == turn.ModeXML:
		return configured, nil
	case teachesBlocks:
		return turn.ModeXML, nil
	}
	return turn.ModeJSON, nil
}

// offered returns a function that reports whether name is the client's or Codex's name of an offered tool.
func offered(plan *prompt.Plan) func(string) bool {
	names := make(map[string]bool, 2*len(plan.Thread.DynamicTools))
	for _, tool := range plan.Thread.DynamicTools {
		names[tool.Name] = true
		if client, ok := plan.Tools.ClientName(tool.Name); ok {
			names[client] = true
		}
	}
	return func(name string) bool { return names[name] }
}

// toolOverrides returns the settings of tool calls that differ from the defaults, as name=value, for the
// log. First come the settings of the configuration, then the request's own (a header and a field).
func (g *Gateway) toolOverrides(r *http.Request, plan *prompt.Plan) []string {
	overrides := g.overrides // its capacity is its length, so that append copies it
	if mode := r.Header.Get(modeHeader); mode != "" {
		overrides = append(overrides, "x-proxy-output-mode="+mode)
	}
	if plan.SerialTools && !g.planOptions.SerialTools {
		overrides = append(overrides, "request.parallel_tool_calls=false")
	}
	return overrides
}

// toolOverrides returns the configured settings that differ from the defaults, as name=value.
func (o *Options) toolOverrides() []string {
	var overrides []string
	add := func(differs bool, name, value string) {
		if differs {
			overrides = append(overrides, name+"="+value)
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
	return slices.Clip(overrides)
}
