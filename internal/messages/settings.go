package messages

import (
	"cmp"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// readThinking reads the field thinking. Its type is enabled (with a budget), adaptive or disabled.
// If its member display has the value "omitted", the client wants thinking blocks without texts.
func (r *Request) readThinking(v wirejson.Value) *field.Error {
	r.Thinking, r.thinkingBudget, r.thinkingDisabled = ThinkingOff, 0, false
	if !v.Given() {
		return nil
	}
	var kind, budget, display wirejson.Value
	var shown string
	f := field.Typed(&kind, v, wirejson.Into("budget_tokens", &budget), wirejson.Into("display", &display))
	f = cmp.Or(f, field.Limit(&r.thinkingBudget, budget).In("budget_tokens"),
		field.OneOf(&shown, []string{"summarized", "omitted", "updates"}, display).In("display"))
	switch {
	case f != nil:
		return f
	case kind.Is("disabled"):
		r.thinkingDisabled = true
		return nil
	case kind.Is("enabled") && r.thinkingBudget == 0:
		return field.Missing().In("budget_tokens")
	case !kind.Is("enabled") && !kind.Is("adaptive"):
		return field.Invalid("must be enabled, adaptive or disabled").In("type")
	}
	if r.Thinking = ThinkingShown; shown == "omitted" {
		r.Thinking = ThinkingOmitted
	}
	return nil
}

// The smallest budgets for thinking, in tokens, for the efforts medium and high.
const (
	mediumBudget = 4 << 10
	highBudget   = 16 << 10
)

// chooseEffort derives the effort from the field thinking, unless the request names an effort. If
// thinking is not disabled and has no budget, the effort stays empty.
func (r *Request) chooseEffort() {
	switch {
	case r.Effort != "":
	case r.thinkingDisabled:
		r.Effort = "low" // the least effort that every model has
	case r.thinkingBudget == 0:
	case r.thinkingBudget < mediumBudget:
		r.Effort = "low"
	case r.thinkingBudget < highBudget:
		r.Effort = "medium"
	default:
		r.Effort = "high"
	}
}

func (r *Request) readOutputConfig(v wirejson.Value) *field.Error {
	r.Effort, r.EffortField = "", "output_config.effort"
	return field.Members(v, r, outputReaders)
}

var outputReaders = field.Readers[*Request]{
	"effort": (*Request).ReadReasoningEffort,
	"format": (*Request).readFormat,
}

func (r *Request) readFormat(v wirejson.Value) *field.Error {
	if !v.Given() {
		return nil
	}
	var kind, schema wirejson.Value
	if f := field.Typed(&kind, v, wirejson.Into("schema", &schema)); f != nil {
		return f
	}
	if !kind.Is("json_schema") {
		return field.Invalid("must be json_schema").In("type")
	}
	return r.Format.ReadSchema(schema).In("schema")
}

func (r *Request) readSpeed(v wirejson.Value) *field.Error {
	var speed string
	f := field.OneOf(&speed, []string{"standard", "fast"}, v)
	if f == nil && speed == "fast" {
		f = r.ReadServiceTier(wirejson.Value(`"priority"`))
	}
	return f
}

func (r *Request) readStops(v wirejson.Value) *field.Error {
	r.StopSequences = nil
	return field.Elements(v, prompt.MaxStops, "strings", r.AddStop)
}

func (r *Request) readChoice(v wirejson.Value) *field.Error {
	r.SerialTools = false
	if !v.Given() {
		return nil
	}
	var kind, name, serial wirejson.Value
	f := field.Typed(&kind, v, wirejson.Into("name", &name), wirejson.Into("disable_parallel_tool_use", &serial))
	if f = cmp.Or(f, field.Bool(&r.SerialTools, serial).In("disable_parallel_tool_use")); f != nil {
		return f
	}
	switch {
	case kind.Is("auto"):
	case kind.Is("none"):
		r.Choice.None = true
	case kind.Is("any"):
		r.Choice.Required = true
	case kind.Is("tool"):
		if f := field.NonEmpty(name).In("name"); f != nil {
			return f
		}
		r.chooseTool(name.Text())
	default:
		return field.Invalid("must be auto, any, tool or none").In("type")
	}
	return r.CheckChoice(r.Search != nil)
}

// chooseTool makes the tool with this name the only choice of the model. For a deferred tool, the only
// choice is the function for deferred tools.
func (r *Request) chooseTool(name string) {
	switch {
	case r.Search != nil && name == r.searchName:
		r.Choice.Search = true
	case r.deferred.has(name):
		r.Choice.Required, r.Choice.Only = true, []string{r.deferred.functionName}
	default:
		r.Choice.Required, r.Choice.Only = true, []string{name}
	}
}
