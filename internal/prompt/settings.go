package prompt

import (
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// ReadModel reads the field model.
func (c *Conversation) ReadModel(v jsontext.Value) *field.Error {
	if f := field.Expect(jsontext.KindString, v); f != nil {
		return f
	}
	switch c.Model = v.Text(); {
	case c.Model == "":
		return field.Invalid("must not be empty")
	case len(c.Model) > maxModel:
		return field.Invalid("must be at most %d bytes long", maxModel)
	}
	return nil
}

// maxModel bounds the name of a model, in bytes: each chunk of the answer repeats it.
const maxModel = 1024

// ReadParallelToolCalls reads the field parallel_tool_calls.
func (c *Conversation) ReadParallelToolCalls(v jsontext.Value) *field.Error {
	f := field.Optional(jsontext.KindBool, v)
	c.SerialTools = v.Kind() == jsontext.KindBool && !v.IsTrue()
	return f
}

// Efforts lists the values of reasoning_effort (ReasoningEffort).
var Efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// verbosities lists the values of verbosity (Verbosity).
var verbosities = []string{"low", "medium", "high"}

// ReadReasoningEffort reads the field reasoning_effort, or reasoning.effort.
func (c *Conversation) ReadReasoningEffort(v jsontext.Value) *field.Error {
	return field.OneOf(&c.Effort, Efforts, v)
}

// ReadVerbosity reads the field verbosity, or text.verbosity.
func (c *Conversation) ReadVerbosity(v jsontext.Value) *field.Error {
	return field.OneOf(&c.Verbosity, verbosities, v)
}

// serviceTiers lists the values of service_tier (ServiceTier).
var serviceTiers = []string{tierAuto, tierDefault, "flex", "scale", tierPriority, tierFast}

const (
	tierAuto     = "auto"    // what the provider gives to this login: the same as none
	tierDefault  = "default" // the usual speed and price
	tierPriority = "priority"
	tierFast     = "fast" // Codex asks its provider for priority
)

// ReadServiceTier reads the field service_tier.
func (c *Conversation) ReadServiceTier(v jsontext.Value) *field.Error {
	return field.OneOf(&c.tier, serviceTiers, v)
}

// codexTier returns the tier that Codex is asked for. It is empty for none.
func (c *Conversation) codexTier() string {
	if c.tier == tierAuto {
		return ""
	}
	return c.tier
}

// ServiceTier returns the service_tier of an answer: the tier that the provider is asked
// for. Codex does not report which tier the provider has used.
func (c *Conversation) ServiceTier() string {
	switch c.tier {
	case "", tierAuto:
		return tierDefault
	case tierFast:
		return tierPriority
	}
	return c.tier
}

// ReadStream reads the field stream.
func (c *Conversation) ReadStream(v jsontext.Value) *field.Error { return field.Bool(&c.Stream, v) }

// NoLogprobs returns the error of a request for log probabilities.
func NoLogprobs() *field.Error {
	return field.Unsupported("is not supported: Codex gives no log probabilities")
}
