// Package prompt has one form for the requests of all APIs, and maps such a request to
// Codex.
//
// A decoder fills a [Conversation], and [Conversation.Plan] maps it to a [Plan]: the parameters of
// thread/start, the history items of thread/inject_items and the parameters of turn/start.
package prompt

import (
	"cmp"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Conversation is what a request asks of the model. All APIs are read into this shape,
// so that there is one way to Codex ([Conversation.Plan]).
type Conversation struct {
	Settings
	Messages []Message
	Elements int // the number of elements in the messages, see [MaxItems]
	Tools    []Tool
	Choice   ToolChoice
	Search   *WebSearch // nil: the model may not search the web
	Pictures *Pictures  // nil: the model may make no pictures
	Format   Format
	Effort   string

	Verbosity   string // empty: the model's own verbosity
	serviceTier string // the service tier that Codex is asked for; empty: none
	EffortField string // the request's field with the Effort; empty: reasoning_effort
}

// Settings are the parts of a request that are also needed to write its answer.
type Settings struct {
	Model           string   // the client's name of the model
	Choices         int      // the number of answers that the client wants, each in a turn of its own; 0: one
	StopSequences   []string // the text ends before the first of them; at most 4, all different, none empty
	MaxTokens       int      // the most tokens of the answer; 0: no limit
	SerialTools     bool     // the client wants one tool call at most: parallel_tool_calls is false
	LegacyFunctions bool     // the client knows functions instead of tools: a call is a function_call
	Stream          bool     // the client wants chunks
	IncludeUsage    bool     // the client also wants a chunk with the usage
	Ignored         []string // parameters that would change the answer but have no counterpart in Codex, in their order
}

// InstructionsContain reports whether s occurs in a system or developer message. It also looks at
// an assistant message at the beginning of the conversation, where some clients put their prompt.
func (c *Conversation) InstructionsContain(s string) bool {
	for i, m := range c.Messages {
		if !m.Role.isInstruction() && (i > 0 || m.Role != RoleAssistant) {
			continue
		}
		for p := range m.Parts() {
			if p.Text != nil && strings.Contains(p.Text.Text(), s) {
				return true
			}
		}
	}
	return false
}

// ModelID returns the client's name of the model.
func (c *Conversation) ModelID() string { return c.Model }

// DeclaresTools reports whether the request declares tools, even if its tool_choice is none.
func (c *Conversation) DeclaresTools() bool { return len(c.Tools) > 0 }

// Skip checks a field for which Codex has no setting: its value may be absent, null, or of the
// given kind. If a value is given and is not neutral, Skip adds name to Ignored. A field that never
// changes an answer has an empty name, and is not added.
func (c *Conversation) Skip(v wirejson.Value, name, neutral string, kind wirejson.Kind) *field.Error {
	f := field.Optional(kind, v)
	if f == nil && v.Given() && name != "" && !v.Equals(neutral) {
		c.Ignore(name)
	}
	return f
}

// Ignore adds a parameter to Ignored.
func (c *Conversation) Ignore(name string) {
	if !slices.Contains(c.Ignored, name) {
		c.Ignored = append(c.Ignored, name)
	}
}

// ReadModel reads the field model.
func (c *Conversation) ReadModel(v wirejson.Value) *field.Error {
	if f := field.String(&c.Model, v); f != nil {
		return f
	}
	switch {
	case strings.TrimSpace(c.Model) == "":
		return field.Invalid("must not be empty")
	case len(c.Model) > maxModelName:
		return field.Invalid("must be at most %d bytes long", maxModelName)
	}
	return nil
}

// maxModelName bounds the name of a model, in bytes: each chunk of the answer repeats it.
const maxModelName = 1024

// ReadParallelToolCalls reads the field parallel_tool_calls.
func (c *Conversation) ReadParallelToolCalls(v wirejson.Value) *field.Error {
	c.SerialTools = string(v) == "false"
	return field.Optional(wirejson.KindBool, v)
}

// Efforts lists the values of reasoning_effort (ReasoningEffort).
var Efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

var verbosities = []string{"low", "medium", "high"}

// ReadReasoningEffort reads the field reasoning_effort, or reasoning.effort.
func (c *Conversation) ReadReasoningEffort(v wirejson.Value) *field.Error {
	return field.OneOf(&c.Effort, Efforts, v)
}

// ReadVerbosity reads the field verbosity, or text.verbosity.
func (c *Conversation) ReadVerbosity(v wirejson.Value) *field.Error {
	return field.OneOf(&c.Verbosity, verbosities, v)
}

// serviceTiers lists the values of service_tier (ServiceTier).
var serviceTiers = []string{"auto", tierDefault, "flex", "scale", "priority", "fast"}

const tierDefault = "default" // the usual speed and price

// ReadServiceTier reads the field service_tier. auto leaves the tier to the
// provider, as a request without a service_tier does.
func (c *Conversation) ReadServiceTier(v wirejson.Value) *field.Error {
	f := field.OneOf(&c.serviceTier, serviceTiers, v)
	if c.serviceTier == "auto" {
		c.serviceTier = ""
	}
	return f
}

// ServiceTier returns the service_tier of an answer: the tier that the provider is asked
// for. Codex does not report which tier the provider has used.
func (c *Conversation) ServiceTier() string {
	if c.serviceTier == "fast" { // for this tier, Codex asks its provider for priority
		return "priority"
	}
	return cmp.Or(c.serviceTier, tierDefault)
}

const (
	// MaxStops is how many stop sequences OpenAI allows.
	MaxStops = 4
	// MaxStopBytes bounds the size of a stop sequence, since text that may be the beginning of a
	// stop sequence is held back.
	MaxStopBytes = 4096
)

// AddStop reads one stop sequence, and adds it if it is not there yet. The caller bounds the number
// of stop sequences by [MaxStops].
func (c *Conversation) AddStop(_ int, v wirejson.Value) *field.Error {
	if f := field.NonEmpty(v); f != nil {
		return f
	}
	stop := v.Text()
	if len(stop) > MaxStopBytes {
		return field.Invalid("must be at most %d bytes long", MaxStopBytes)
	}
	if !slices.Contains(c.StopSequences, stop) {
		c.StopSequences = append(c.StopSequences, stop)
	}
	return nil
}

// ReadStream reads the field stream.
func (c *Conversation) ReadStream(v wirejson.Value) *field.Error { return field.Bool(&c.Stream, v) }

// ReadTopLogprobs reads the field top_logprobs. Any number is an error, since Codex gives no log
// probabilities.
func (c *Conversation) ReadTopLogprobs(v wirejson.Value) *field.Error {
	return cmp.Or(field.Optional(wirejson.KindNumber, v), field.Refuse(v, NoLogprobs))
}

// NoLogprobs is the reason for which a request for log probabilities is refused.
const NoLogprobs = "Codex gives no log probabilities"
