package caddymodule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// ToolOptions say in which form tool calls reach clients, and how many.
type ToolOptions struct {
	// The form in which clients get tool calls. `openai-json`: as tool_calls, also
	// those that the model wrote as <use_tool> blocks. `obsidian-xml`: as <use_tool>
	// blocks in the text, with tool_calls beside them. `auto`: obsidian-xml for a
	// request that declares no tools and whose instructions speak of <use_tool>,
	// else openai-json. A request may choose by the header x-proxy-output-mode.
	// Default: `auto`.
	OutputMode string `json:"output_mode,omitempty"`

	// When a turn with tool calls ends. `off`: the model finishes. `first`: with
	// the first call. `burst`: with the model's response, or a grace after the last
	// textual block. A structured call ends the answer with the model's response
	// in any case. Default: `burst`.
	StopAfterTools string `json:"stop_after_tools,omitempty"`

	// The grace of `burst`. Each textual block begins it anew. Default: `300ms`.
	StopAfterToolsGrace caddy.Duration `json:"stop_after_tools_grace,omitempty"`

	// Whether text after the last tool call is dropped. Default: true.
	SuppressTailAfterTools *bool `json:"suppress_tail_after_tools,omitempty"`

	// Which <use_tool> blocks in the model's text are calls. `auto`: all in
	// obsidian-xml; else those that name a tool of the request, or all if the
	// request's instructions speak of <use_tool>. `on`: all. `off`: none, blocks are
	// text. In openai-json none in a code fence is. Default: `auto`.
	TextualTools string `json:"textual_tools,omitempty"`

	// The most tool calls of a turn. Default: 0, no limit.
	ToolBlockMax int `json:"tool_block_max,omitempty"`

	// Whether a call that repeats an earlier one of its turn, the same tool with
	// the same arguments, is dropped. Default: false.
	ToolBlockDedup bool `json:"tool_block_dedup,omitempty"`

	// What is put between two <use_tool> blocks that have no text between them.
	// Default: nothing.
	ToolBlockDelimiter string `json:"tool_block_delimiter,omitempty"`

	// Whether a turn may have several tool calls, if the client does not say
	// otherwise. Default: true.
	ParallelToolCalls *bool `json:"parallel_tool_calls,omitempty"`

	// How values stand in <use_tool> blocks that are made of structured calls:
	// `literal`, as Obsidian Copilot reads them, or `entities`, with &lt; &gt; and
	// &amp;. Default: `literal`.
	XMLEscape string `json:"xml_escape,omitempty"`
}

// The values of the options that are words.
var (
	outputModes = []string{string(gateway.ModeAuto), string(turn.ModeJSON), string(turn.ModeXML)}
	stopModes   = []string{string(turn.StopOff), string(turn.StopFirst), string(turn.StopBurst)}
	textualSets = []string{string(gateway.TextualAuto), string(gateway.TextualOn), string(gateway.TextualOff)}
	escapings   = []string{"literal", "entities"}
)

func (o *ToolOptions) setDefaults() {
	defaultTo(&o.OutputMode, string(gateway.ModeAuto))
	defaultTo(&o.StopAfterTools, string(turn.StopBurst))
	defaultTo(&o.StopAfterToolsGrace, caddy.Duration(turn.DefaultGrace))
	defaultTo(&o.SuppressTailAfterTools, new(true))
	defaultTo(&o.TextualTools, string(gateway.TextualAuto))
	defaultTo(&o.ParallelToolCalls, new(true))
	defaultTo(&o.XMLEscape, escapings[0])
}

// defaultTo sets what is not set.
func defaultTo[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}

func (o *ToolOptions) validate() error {
	for _, w := range []struct {
		name, value string
		allowed     []string
	}{
		{"output_mode", o.OutputMode, outputModes},
		{"stop_after_tools", o.StopAfterTools, stopModes},
		{"textual_tools", o.TextualTools, textualSets},
		{"xml_escape", o.XMLEscape, escapings},
	} {
		if !slices.Contains(w.allowed, w.value) {
			return fmt.Errorf("%s: must be one of %s, not %q", w.name, strings.Join(w.allowed, ", "), w.value)
		}
	}
	if o.StopAfterToolsGrace < 0 {
		return errors.New("stop_after_tools_grace: must be positive")
	}
	if o.ToolBlockMax < 0 {
		return errors.New("tool_block_max: must not be negative")
	}
	return nil
}

// tools are the options as the gateway takes them.
func (o *ToolOptions) tools() gateway.Tools {
	t := gateway.Tools{
		Mode:         turn.Mode(o.OutputMode),
		Textual:      gateway.Textual(o.TextualTools),
		Stop:         turn.StopMode(o.StopAfterTools),
		Grace:        time.Duration(o.StopAfterToolsGrace),
		SuppressTail: *o.SuppressTailAfterTools,
		Max:          o.ToolBlockMax,
		Dedup:        o.ToolBlockDedup,
		Delimiter:    o.ToolBlockDelimiter,
		Serial:       !*o.ParallelToolCalls,
		Escaping:     usetool.EscapeLiteral,
	}
	if o.XMLEscape == "entities" {
		t.Escaping = usetool.EscapeEntities
	}
	return t
}
