package messages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// contextManagement is BetaContextManagementResponse: the edits that have cleared something.
type contextManagement struct {
	Applied []json.RawMessage `json:"applied_edits"`
	tokens  int               // that were cleared, an estimate
}

// contextEdit is an edit: it clears uses of tools, or the reasoning in turns, or has the conversation summarised.
type contextEdit struct {
	unit             string    // what it clears: tool_uses, thinking_turns; empty: nothing
	keep             int       // how many of the newest units stay
	tokens, uses     int       // the edit is made beyond so many tokens of the prompt, or so many units
	atLeast          int       // how many tokens it has to clear
	excluded, inputs toolNames // the tools whose uses stay, and those whose inputs are cleared with the results
	shortening       prompt.Shortening
}

// contextEdits are the edits by their types, with Anthropic's defaults.
var contextEdits = map[string]contextEdit{
	"clear_thinking_20251015":  {unit: "thinking_turns", keep: 1, tokens: -1, uses: math.MaxInt},
	"clear_tool_uses_20250919": {unit: "tool_uses", keep: 3, tokens: 100_000, uses: math.MaxInt},
	"compact_20260112":         {tokens: 150_000},
}

// read reads the options of the edit.
func (e *contextEdit) read(v wirejson.Value) *field.Error {
	var trigger, keep, atLeast, excluded, inputs, pause, instructions wirejson.Value
	v.Pick(wirejson.Into("trigger", &trigger), wirejson.Into("keep", &keep), wirejson.Into("clear_at_least", &atLeast), wirejson.Into("exclude_tools", &excluded),
		wirejson.Into("clear_tool_inputs", &inputs), wirejson.Into("pause_after_compaction", &pause), wirejson.Into("instructions", &instructions))
	return cmp.Or(readAmount(trigger, map[string]*int{cmp.Or(e.unit, "input_tokens"): &e.uses, "input_tokens": &e.tokens}).In("trigger"),
		readAmount(keep, map[string]*int{e.unit: &e.keep}).In("keep"), readAmount(atLeast, map[string]*int{"input_tokens": &e.atLeast}).In("clear_at_least"),
		e.excluded.read(excluded).In("exclude_tools"), e.inputs.read(inputs).In("clear_tool_inputs"),
		field.Bool(&e.shortening.Pause, pause).In("pause_after_compaction"), field.Text(&e.shortening.Instructions, instructions).In("instructions"))
}

// readAmount reads an optional object such as {"type":"tool_uses","value":3} into the number of its type. Other
// numbers become infinite, as does that of thinking turns for "all".
func readAmount(v wirejson.Value, numbers map[string]*int) *field.Error {
	if !v.Given() {
		return nil
	}
	for _, n := range numbers {
		*n = math.MaxInt
	}
	if numbers["thinking_turns"] != nil && v.Is("all") {
		return nil
	}
	var kind, value wirejson.Value
	v.PickTyped(&kind, wirejson.Into("value", &value))
	name, _ := kind.AsText()
	n, err := strconv.ParseUint(string(value), 10, 31)
	if numbers[name] == nil || err != nil || n == 0 && name == "thinking_turns" {
		return field.Invalid("must have a type (%s) and a number as value", strings.Join(slices.Sorted(maps.Keys(numbers)), " or "))
	}
	*numbers[name] = int(n)
	return nil
}

// toolNames are the names of tools; "" stands for all.
type toolNames map[string]bool

func (t *toolNames) read(v wirejson.Value) *field.Error {
	if *t = (toolNames{"": v.IsTrue()}); v.Kind() == wirejson.KindBool {
		return nil
	}
	return field.Elements(v, prompt.MaxTools, "names", func(_ int, v wirejson.Value) *field.Error {
		name, _ := v.AsText()
		(*t)[name] = true
		return field.NonEmpty(v)
	})
}

// editContext reads context_management, and makes its edits in their order.
func (r *Request) editContext(v wirejson.Value) *field.Error {
	if !v.Given() {
		return nil
	}
	r.management = &contextManagement{Applied: []json.RawMessage{}}
	var edits wirejson.Value
	f := field.Object(v, wirejson.Into("edits", &edits))
	return cmp.Or(f, field.Elements(edits, len(contextEdits), "edits", func(_ int, v wirejson.Value) *field.Error {
		var kind wirejson.Value
		var name string
		f := field.Typed(&kind, v)
		if f = cmp.Or(f, field.OneOf(&name, slices.Sorted(maps.Keys(contextEdits)), kind).In("type")); f != nil {
			return f
		}
		e := contextEdits[name]
		if f = e.read(v); f != nil {
			return f
		}
		if e.unit == "" {
			if r.Shortening, r.Shortening.Above = e.shortening, e.tokens; e.tokens < 50_000 {
				return field.Invalid("must be at least 50000").In("trigger")
			}
		} else if n, tokens := r.clear(&e); n > 0 {
			r.management.tokens += tokens
			r.management.Applied = append(r.management.Applied, fmt.Appendf(nil, `{"type":%q,"cleared_%s":%d,"cleared_input_tokens":%d}`, name, e.unit, n, tokens))
		}
		return nil
	}).In("edits"))
}

// clearedResult is what the model gets in place of a result.
var clearedResult = wirejson.Value(`"[This result was removed to shorten the conversation. Call the tool again if you need it.]"`)

// change puts a message in the place of another one.
type change struct {
	of *prompt.Message
	to prompt.Message // empty: none
}

// clear makes an edit, and returns how many units it has cleared, and how many tokens. A turn begins with a message of
// the user's that follows no result. clear decides after each message what to clear of those before. So a later request
// agrees: between two edits, a prompt begins with the one before, which the provider has in its cache.
func (r *Request) clear(e *contextEdit) (cleared, tokens int) {
	calls := make(map[string]*prompt.Message) // the newest one with each id
	var units [][]change
	begins, due, savings := true, 0, 0                    // the turn has no reasoning yet; units[cleared:due] are next
	size := r.EstimateTokens(0) - estimate(r.Messages...) // of the prompt so far
	for i := range r.Messages {
		m := &r.Messages[i]
		size += estimate(*m)
		switch {
		case len(m.Calls) > 0:
			calls[m.Calls[0].ID.Text()] = m
		case m.Role == prompt.RoleUser && !begins:
			begins = r.Messages[i-1].Role != prompt.RoleTool
		case m.Role == prompt.RoleTool && e.unit == "tool_uses":
			if use, name := r.toolUse(calls[m.CallID.Text()], m, e.inputs); !e.excluded[name] {
				units = append(units, use)
			}
		case bytes.HasPrefix(m.Item, []byte(`{"type":"reasoning"`)) && e.unit == "thinking_turns":
			if begins {
				units, begins = append(units, nil), false
			}
			units[len(units)-1] = append(units[len(units)-1], change{of: m})
		}
		for ; due < len(units)-e.keep; due++ {
			for _, c := range units[due] {
				savings += max(0, estimate(*c.of)-estimate(c.to))
			}
		}
		if size <= e.tokens && len(units)-cleared <= e.uses || savings < e.atLeast {
			continue
		}
		for _, c := range slices.Concat(units[cleared:due]...) {
			*c.of = c.to
		}
		cleared, tokens, size, savings = due, tokens+savings, size-savings, 0
	}
	r.Messages = slices.DeleteFunc(r.Messages, func(m prompt.Message) bool { return m.Role == "" })
	return cleared, tokens
}

// estimate returns about how many tokens messages have.
func estimate(messages ...prompt.Message) int {
	c := prompt.Conversation{Messages: messages}
	return c.EstimateTokens(0)
}

// toolUse returns the changes that clear a use of a tool, and the tool's name.
func (r *Request) toolUse(call, result *prompt.Message, emptied toolNames) (use []change, name string) {
	cleared, c := *result, call.Calls[0]
	cleared.Text, cleared.Content = clearedResult, nil
	name, c.Arguments = c.Name, wirejson.Value(`"{}"`)
	if name == r.deferred.functionName {
		if called, _, ok := unwrapCall(call.Calls[0].Arguments.Text()); ok {
			name, c.Arguments = called, wirejson.AppendString(nil, r.deferred.wrapArguments(called, emptyInput))
		}
	}
	use = []change{{result, cleared}}
	if emptied[name] || emptied[""] {
		emptyCall := *call
		emptyCall.Calls = []prompt.Call{c}
		use = append(use, change{call, emptyCall})
	}
	return use, name
}

// readCompaction reads the field compaction, which asks for a summary in place of an answer.
func (r *Request) readCompaction(v wirejson.Value) *field.Error {
	if r.Shortening = (prompt.Shortening{Summary: v.Given()}); !v.Given() {
		return nil
	}
	var kind, instructions wirejson.Value
	f := field.Typed(&kind, v, wirejson.Into("instructions", &instructions))
	return cmp.Or(f, field.OneOf(new(string), []string{"summarize"}, kind).In("type"), field.Text(&r.Shortening.Instructions, instructions).In("instructions"))
}
