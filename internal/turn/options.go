package turn

import (
	"time"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// Mode is the form in which a client reads tool calls.
type Mode string

const (
	// ModeJSON gives every call as OpenAI's tool_calls, and takes textual blocks
	// out of the text.
	ModeJSON Mode = "openai-json"
	// ModeXML gives every call as a <use_tool> block in the text, as Obsidian
	// Copilot reads it, with tool_calls beside it.
	ModeXML Mode = "obsidian-xml"
)

// StopMode says when a turn with tool calls ends before the model does. A
// structured call ends it with its model response in every mode, since only
// the client can answer the call.
type StopMode string

const (
	// StopOff lets the model finish.
	StopOff StopMode = "off"
	// StopFirst ends the turn with its first call.
	StopFirst StopMode = "first"
	// StopBurst ends the turn with the model response, or a grace after the last
	// textual block.
	StopBurst StopMode = "burst"
)

// DefaultGrace is how long a turn goes on after a textual block in StopBurst.
const DefaultGrace = 300 * time.Millisecond

// Options says how a [Machine] treats one turn. The zero value is a plain
// OpenAI turn: structured calls only, ended with the model response.
type Options struct {
	// Choice is the choice's index, which call ids carry.
	Choice int
	// IDSuffix makes the call ids of this turn differ from those of other turns
	// of the same conversation. Empty: none.
	IDSuffix string
	// ClientName gives the client's own name of a tool that Codex knows as
	// name. False: the tool is not the client's, and Codex answers its calls.
	// Nil: every tool is the client's, under its own name.
	ClientName func(name string) (string, bool)

	// NoReasoning keeps the summaries of the reasoning from the client. Providers
	// may send some that nobody has asked for.
	NoReasoning bool
	// Items is for a client that sees items rather than one text: messages are
	// parted by an output instead of an empty line, and the ends of reasoning items
	// are told, with their encrypted content.
	Items bool

	// Mode is the form of the calls; empty: ModeJSON.
	Mode Mode
	// Textual looks for <use_tool> blocks in the text.
	Textual bool
	// AcceptTextual says which tool names make a block a call; nil: all.
	AcceptTextual func(name string) bool
	// Escaping is how values stand in blocks made of structured calls.
	Escaping usetool.Escaping

	// Stop says when the turn ends; empty: StopBurst.
	Stop StopMode
	// Grace is the time after a textual block, in StopBurst. Above MaxCalls it is
	// how long the turn goes on for the sake of its usage.
	Grace time.Duration
	// SuppressTail drops the text after the last call, unless it has a block that is
	// no call: a client may run that.
	SuppressTail bool
	// MaxCalls is the most calls that the client gets; 0: no limit of ours.
	MaxCalls int
	// Dedup drops calls that repeat an earlier one: the same tool with the same
	// arguments. A block and a structured call that are twins are one call anyway.
	Dedup bool
	// StopSequences end the text of the model, and the turn, before the first of
	// them: at most 4, none empty. They are looked for in what the model writes,
	// blocks included, but not in its reasoning nor in the arguments of
	// structured calls; one that goes over from a message into the next, or over
	// a structured call, is none. The finish is FinishStop, or FinishToolCalls if
	// calls went out. A block that is open at the cut is text.
	StopSequences []string
	// MaxTokens is the most tokens (o200k_base) of what the client gets: the
	// text as the model wrote it, blocks included, and the names and arguments of
	// structured calls; 0: no limit. The text is cut after the last of them, or
	// before a rune that this would cut. Structured calls are never cut: one that
	// begins within the limit is given whole, and then ends the turn if it went
	// beyond. A block that is open at the cut is text. The finish is FinishLength,
	// or FinishToolCalls if calls went out and the cut is not within one. The
	// usage then has at least the tokens counted here.
	MaxTokens int
	// Delimiter is put between two blocks that have no text between them, in
	// ModeXML.
	Delimiter string
}

// limit is the most calls of a turn.
func (o *Options) limit() int {
	if o.MaxCalls > 0 && o.MaxCalls < aggregator.DefaultMaxCalls {
		return o.MaxCalls
	}
	return aggregator.DefaultMaxCalls
}

func (o *Options) xml() bool { return o.Mode == ModeXML }
