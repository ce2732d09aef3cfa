package turn

import (
	"time"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Mode is the form in which a client reads tool calls.
type Mode string

const (
	// ModeAuto lets each request decide. A [Machine] treats it as ModeJSON.
	ModeAuto Mode = "auto"
	// ModeJSON gives every call as OpenAI's tool_calls, and removes blocks from the text.
	ModeJSON Mode = "openai-json"
	// ModeXML gives every call as a <use_tool> block in the text, as Obsidian Copilot reads it. In
	// chat completions the call is also in tool_calls.
	ModeXML Mode = "obsidian-xml"
)

// StopMode says when a turn with tool calls ends if the model has not finished. In every mode, a structured
// call ends the turn at the end of the model response, since only the client can answer the call.
type StopMode string

const (
	// StopOff lets the model finish.
	StopOff StopMode = "off"
	// StopFirst gives the client the first call and nothing more. The turn ends with the response,
	// or Grace after the first call. Further calls set [Report].Truncated.
	StopFirst StopMode = "first"
	// StopBurst ends the turn with the model response, or Grace after the last textual block.
	StopBurst StopMode = "burst"
)

// Textual says which <use_tool> blocks in a model's text are calls.
type Textual string

const (
	// TextualAuto lets the request decide. A [Machine] treats it as TextualOff.
	TextualAuto Textual = "auto"
	// TextualOn accepts every block that [Options.AcceptTextual] accepts.
	TextualOn Textual = "on"
	// TextualOff accepts none: blocks are text.
	TextualOff Textual = "off"
)

// DefaultGrace is the value of [Options].Grace if the configuration sets none.
const DefaultGrace = 300 * time.Millisecond

// ToolOptions are the settings of tool calls, with the names that they have in
// Caddy's JSON. A field that is not set has its default.
type ToolOptions struct {
	// The form in which clients get tool calls. `openai-json`: as tool_calls, also those that the model
	// wrote as <use_tool> blocks. `obsidian-xml`: as <use_tool> blocks in the text, with tool_calls
	// beside them. `auto`: obsidian-xml for a request that declares no tools and whose instructions
	// contain <use_tool>, else openai-json. The request header x-proxy-output-mode overrides it. Default:
	// `auto`.
	OutputMode Mode `json:"output_mode,omitempty" option:"auto|openai-json|obsidian-xml" default:"auto"`

	// When a turn with tool calls ends. `off`: when the model has finished. `first`: after the
	// first call; the turn goes on for `stop_after_tools_grace` to find out whether there are more
	// calls. `burst`: at the end of the model's response, or when no textual block has followed the
	// last one for `stop_after_tools_grace`. A structured call always ends the answer at the end of
	// the model's response. Default: `burst`.
	StopAfterTools StopMode `json:"stop_after_tools,omitempty" option:"off|first|burst" default:"burst"`

	// Whether text after the last tool call is dropped. If this text contains a block that is not a call,
	// the text up to the end of the block is kept, since a client may run the block. Default: true.
	SuppressTailAfterTools *bool `json:"suppress_tail_after_tools,omitempty" option:"on|off" default:"on"`

	// Which <use_tool> blocks in the model's text are calls. `auto`: all of them in
	// obsidian-xml; else those that name a tool of the request, or all of them if the
	// request's instructions contain <use_tool>. `on`: all. `off`: none, blocks are
	// text. In openai-json a block in a code fence is never a call. Default: `auto`.
	TextualTools Textual `json:"textual_tools,omitempty" option:"auto|on|off" default:"auto"`

	// The most tool calls of a turn, up to 1,024. Default: 0, which means 1,024.
	ToolBlockMax int `json:"tool_block_max,omitempty" option:"<n>" default:"0"`

	// Whether a call is dropped if it repeats an earlier call of its turn: the same tool with the
	// same arguments. If a textual block and a structured call are the same, they are always one
	// call. Default: false.
	ToolBlockDedup bool `json:"tool_block_dedup,omitempty" option:"on|off"`

	// The text between two <use_tool> blocks that have no text between them, in
	// obsidian-xml. Default: none.
	ToolBlockDelimiter string `json:"tool_block_delimiter,omitempty" option:"<text>"`

	// Whether a turn may have several tool calls, if the client does not say otherwise. Default: true.
	ParallelToolCalls *bool `json:"parallel_tool_calls,omitempty" option:"on|off" default:"on"`

	// How values are written in <use_tool> blocks that are made of structured calls: `literal`, as
	// Obsidian Copilot reads them, or `entities`, with &lt;, &gt; and &amp;. Default: `literal`.
	XMLEscape usetool.Escaping `json:"xml_escape,omitempty" option:"literal|entities" default:"literal"`
}

// Options are the options of a [Machine] for one turn. The zero value is a plain OpenAI turn: calls are
// structured (function_call items, not blocks in the text), and end the turn with the model response.
type Options struct {
	ToolOptions

	// Choice is the choice's index, which is a part of its call ids.
	Choice int
	// IDSuffix ends the call ids, in lower case. With it, the ids of a conversation's turns differ.
	IDSuffix string
	// Spent is the thread's usage before this request: of earlier turns and, if this turn was parked, also
	// of the turn until then.
	Spent codexrpc.Usage
	// ClientName returns the client's name of the tool that has this name in the thread. False: the tool is
	// not the client's, and Codex answers its calls. Nil: every tool is the client's, under the same name.
	ClientName func(name string) (string, bool)
	// AcceptTextual reports whether a block of this tool is a call; nil: all are. TextualOn only.
	AcceptTextual func(name string) bool
	// Patterns are the textual forms of calls beside <use_tool>, for TextualOn. They
	// have passed [aggregator.CheckPatterns].
	Patterns []aggregator.NamedPattern
	// Grace is how long the turn continues after a textual block, in StopBurst, and after the first
	// call, in StopFirst. If there are more calls than the limit allows, Grace is how long the turn
	// waits for its usage. 0: the turn continues until all events that have arrived are processed.
	Grace time.Duration

	// NoReasoning withholds summaries, which providers may send unasked, from the client.
	NoReasoning bool
	// Items is for a client that reads items of the Responses API, not one text. For it, an output with Gap
	// separates messages, not an empty line, and reasoning items have ends, with encrypted content.
	Items bool

	// WebSearch: the model may search. Searches and annotations of its messages are outputs.
	WebSearch bool

	// Picture: the turn makes one picture with Codex's tool, and ends with the picture. Text is no output.
	Picture bool

	// Summary: the text of the turn is a summary of the conversation. It is one output, at the end. The
	// model's calls are refused.
	Summary bool

	// StopSequences are at most 4 texts, none of them empty. The text and the turn end before the first of
	// them that occurs in the text, also in blocks, but not in reasoning or structured calls. A sequence
	// that spans messages or is interrupted by a structured call does not count. The finish is FinishStop,
	// or FinishToolCalls if calls were sent. A block that is open at the cut is text.
	StopSequences []string
	// MaxTokens limits the tokens (o200k_base) that the client gets; 0: no limit. The text counts as the
	// model wrote it, with blocks; names and arguments of structured calls count, too. The text is cut
	// after the last token that fits, or before a rune that this would split. A structured call that begins
	// within the limit is sent whole; if it exceeds the limit, it ends the turn. A block that is open at
	// the cut is text. The finish is FinishLength, or FinishToolCalls if calls were sent and the cut is not
	// within another call. The usage has at least the tokens counted for the limit.
	MaxTokens int
	// Budget limits the tokens of the turn, counted like MaxTokens, and perhaps of other turns that share
	// the budget. The limit that is reached first ends the turn. Nil: there is no budget.
	Budget Budget
}

// Budget is a number of tokens that turns share. It is safe for concurrent use.
type Budget interface {
	// Take takes up to n tokens from the budget and returns how many: 0 if none are left.
	Take(n int) int
	// Raise takes tokens until this turn has taken n, even too many. It reports whether any are left.
	Raise(n int64) bool
}

func (o *Options) maxCalls() int {
	switch {
	case o.ParallelToolCalls != nil && !*o.ParallelToolCalls, o.StopAfterTools == StopFirst:
		return 1
	case o.ToolBlockMax > 0:
		return o.ToolBlockMax
	}
	return aggregator.DefaultMaxCalls
}

func (o *Options) suppressTail() bool {
	return o.SuppressTailAfterTools == nil || *o.SuppressTailAfterTools
}

// findsBlocks reports whether blocks in the model's text may be calls.
func (o *Options) findsBlocks() bool { return o.TextualTools == TextualOn }

// writesBlocks reports whether the client gets the calls as blocks in the text.
func (o *Options) writesBlocks() bool { return o.OutputMode == ModeXML }
