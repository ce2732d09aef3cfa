// Package prompt turns the requests of clients into requests to Codex. The decoders of all APIs
// fill the same form, the [Conversation]. [Conversation.Plan] turns it into a [Plan]: the
// parameters of thread/start, the history items of thread/inject_items and the parameters of
// turn/start.
//
// All decoders treat the fields of a body alike. Values of a wrong type or form are errors, and so
// are requests for things that Codex cannot do: these errors are invalid_request_errors with status
// 400. Known fields without an effect are accepted, and [Plan].Ignored lists those with which OpenAI
// or Anthropic would answer differently. Unknown fields are skipped. A decoded request refers to parts of
// its body, which must not change while the request is in use.
package prompt

import (
	"cmp"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Conversation is what a request asks of the model. The decoders of all APIs fill this one form,
// and [Conversation.Plan] turns it into requests to Codex.
type Conversation struct {
	Settings
	Messages   []Message
	Repeated   int // how many of the first messages the client sends with each request, apart from the conversation
	Elements   int // how many elements the messages have, see [MaxItems]
	Tools      []Tool
	Choice     ToolChoice
	Search     *WebSearch // nil: the model may not search the web
	Picture    bool       // the turn makes one picture with Codex's own tool, and ends with it
	Format     Format
	Shortening Shortening
	Effort     string // the reasoning effort that the request asks for; empty: it asks for no particular effort
	Summary    string // the form of the summaries of the model's reasoning: auto, concise, detailed; empty: it asks for none

	Body    wirejson.Value // the body of the request; most values of the conversation are parts of it
	Earlier string         // the field that refers to messages which are not in the body; empty: there are none

	Verbosity   string // empty: the model's own verbosity
	serviceTier string // the service tier to ask for; empty: none
	EffortField string // the name of the field with the Effort; empty: reasoning_effort

	DefaultsModel bool // the default model stands for a Model that is no alias
}

// Settings are the parts of a request that are also needed to write its answer.
type Settings struct {
	Model           string   // the client's name of the model
	Choices         int      // the number of answers that the client wants, each in a turn of its own; 0: one
	StopSequences   []string // the text of the answer ends before the first of them; at most 4, all different, none empty
	MaxTokens       int      // the maximum number of tokens of the answer; 0: no limit
	SerialTools     bool     // parallel_tool_calls is false: the client wants at most one tool call
	LegacyFunctions bool     // the client uses functions instead of tools: it gets a call as a function_call
	Stream          bool     // the client wants chunks
	IncludeUsage    bool     // the client also wants a chunk with the usage
	Ignored         []string // parameters that would change the answer, but that Codex does not have; in the order in which they were read
}

// at puts the path of the value v before the path of f. For a v that is not in the body, it puts Earlier.
func (c *Conversation) at(v wirejson.Value, f *field.Error) *field.Error {
	return f.In(cmp.Or(field.PathOf(c.Body, v), c.Earlier))
}

// InstructionsContain reports whether s occurs in a system or developer message, or in an assistant
// message at the beginning: some clients put their prompt there.
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

// Choices returns how many answers the client wants, each in a turn of its own; at least 1.
func (c *Conversation) Choices() int { return max(1, c.Settings.Choices) }

// Asked returns c: the Conversation of any request that embeds one.
func (c *Conversation) Asked() *Conversation { return c }

// DeclaresTools reports whether the request declares tools, even if its tool_choice is none.
func (c *Conversation) DeclaresTools() bool { return len(c.Tools) > 0 }

// Skip checks a field for which Codex has no setting. The value may be absent, null, or of the
// given kind. neutral is the JSON value that has no effect. If another value is given, Skip adds
// name to Ignored. If name is empty, Skip adds nothing: such a field never changes an answer.
func (c *Conversation) Skip(v wirejson.Value, name, neutral string, kind wirejson.Kind) *field.Error {
	f := field.Optional(kind, v)
	if f == nil && v.Given() && name != "" && !v.Equals(neutral) {
		c.Ignore(name)
	}
	return f
}

// Unused reads a field for which Codex has no setting, with the parameters of [Conversation.Skip].
func Unused[R skipper](name, neutral string, kind wirejson.Kind) func(R, wirejson.Value) *field.Error {
	return func(r R, v wirejson.Value) *field.Error { return r.Skip(v, name, neutral, kind) }
}

type skipper interface {
	Skip(v wirejson.Value, name, neutral string, kind wirejson.Kind) *field.Error
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

// maxModelName bounds a model's name, in bytes, since each chunk of the answer repeats it.
const maxModelName = 1024

// ReadChoices reads the number of answers, which is optional and at most limit.
func (c *Conversation) ReadChoices(v wirejson.Value, limit int) *field.Error {
	f := field.Limit(&c.Settings.Choices, v)
	if f == nil && c.Settings.Choices > limit {
		f = field.Invalid("must be at most %d", limit)
	}
	return f
}

// ReadParallelToolCalls reads the field parallel_tool_calls.
func (c *Conversation) ReadParallelToolCalls(v wirejson.Value) *field.Error {
	c.SerialTools = string(v) == "false"
	return field.Optional(wirejson.KindBool, v)
}

var verbosities = []string{"low", "medium", "high"}

// ReadReasoningEffort reads the field reasoning_effort, or reasoning.effort.
func (c *Conversation) ReadReasoningEffort(v wirejson.Value) *field.Error {
	return field.OneOf(&c.Effort, codexrpc.Efforts, v)
}

// ReadVerbosity reads the field verbosity, or text.verbosity.
func (c *Conversation) ReadVerbosity(v wirejson.Value) *field.Error {
	return field.OneOf(&c.Verbosity, verbosities, v)
}

// serviceTiers lists the values of service_tier (ServiceTier in OpenAI's API).
var serviceTiers = []string{"auto", tierDefault, "flex", "scale", "priority", "fast"}

const tierDefault = "default" // the usual speed and price

// ReadServiceTier reads service_tier. The value auto means the same as no value: the provider chooses.
func (c *Conversation) ReadServiceTier(v wirejson.Value) *field.Error {
	f := field.OneOf(&c.serviceTier, serviceTiers, v)
	if c.serviceTier == "auto" {
		c.serviceTier = ""
	}
	return f
}

// ServiceTier returns the service_tier that Codex asks for. Codex does not report which tier was used.
func (c *Conversation) ServiceTier() string {
	if c.serviceTier == "fast" { // Codex then asks its provider for priority
		return "priority"
	}
	return cmp.Or(c.serviceTier, tierDefault)
}

const (
	// MaxStops is how many stop sequences OpenAI allows.
	MaxStops = 4
	// MaxStopBytes bounds a stop sequence: text that may be its beginning cannot be sent yet.
	MaxStopBytes = 4096
)

// AddStop adds a stop sequence that is not there yet. The caller bounds their number by [MaxStops].
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

// ReadTopLogprobs reads top_logprobs. Any number is an error: Codex gives no log probabilities.
func (c *Conversation) ReadTopLogprobs(v wirejson.Value) *field.Error {
	return cmp.Or(field.Optional(wirejson.KindNumber, v), field.Refuse(v, NoLogprobs))
}

// NoLogprobs says why a request for log probabilities is refused.
const NoLogprobs = "Codex gives no log probabilities"
