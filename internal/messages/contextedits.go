package messages

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// appliedEdit says what an edit of context_management has left out of the prompt.
type appliedEdit struct {
	Type     string `json:"type"`
	ToolUses int    `json:"cleared_tool_uses,omitempty"`
	Turns    int    `json:"cleared_thinking_turns,omitempty"`
	Tokens   int    `json:"cleared_input_tokens"` // an estimate
}

// contextManagement is BetaContextManagementResponse.
type contextManagement struct {
	Applied []appliedEdit `json:"applied_edits"`
}

// editContext reads context_management, and edits the messages.
func (r *Request) editContext(v wirejson.Value) *field.Error {
	if !v.Given() {
		return nil
	}
	r.applied = []appliedEdit{}
	var edits wirejson.Value
	f := field.Object(v, wirejson.Into("edits", &edits))
	return cmp.Or(f, field.Elements(edits, 3, "edits", r.edit).In("edits"))
}

// edit reads and makes an edit of context_management, and adds it to r.applied if it has left out anything.
func (r *Request) edit(_ int, v wirejson.Value) *field.Error {
	var kind, trigger, keep, atLeast, excluded, inputs, pause, instructions wirejson.Value
	f := field.Typed(&kind, v, wirejson.Into("trigger", &trigger), wirejson.Into("keep", &keep), wirejson.Into("clear_at_least", &atLeast),
		wirejson.Into("exclude_tools", &excluded), wirejson.Into("clear_tool_inputs", &inputs),
		wirejson.Into("pause_after_compaction", &pause), wirejson.Into("instructions", &instructions))
	if f != nil {
		return f
	}
	done := appliedEdit{Type: kind.Text()}
	switch done.Type {
	case "clear_thinking_20251015":
		kept := 1
		f = readAmount(keep, amounts{"thinking_turns": &kept, "all": &kept}).In("keep")
		done.Turns, done.Tokens = r.clearThinking(kept)
	case "clear_tool_uses_20250919":
		c := toolClearing{tokens: 100_000, uses: math.MaxInt, keep: 3, excluded: toolNames{}, inputs: toolNames{}}
		f = cmp.Or(readAmount(trigger, amounts{"input_tokens": &c.tokens, "tool_uses": &c.uses}).In("trigger"),
			readAmount(keep, amounts{"tool_uses": &c.keep}).In("keep"), readAmount(atLeast, amounts{"input_tokens": &c.atLeast}).In("clear_at_least"),
			c.excluded.read(excluded).In("exclude_tools"), c.inputs.read(inputs).In("clear_tool_inputs"))
		done.ToolUses, done.Tokens = r.clearToolUses(&c)
	case "compact_20260112":
		r.Shortening.Above = 150_000 // Anthropic's default
		f = cmp.Or(readAmount(trigger, amounts{"input_tokens": &r.Shortening.Above}).In("trigger"),
			field.Bool(&r.Shortening.Pause, pause).In("pause_after_compaction"), r.readInstructions(instructions))
		if f == nil && r.Shortening.Above < 50_000 {
			f = field.Invalid("must be at least 50000").In("value").In("trigger")
		}
	default:
		f = field.Invalid("must be clear_thinking_20251015, clear_tool_uses_20250919 or compact_20260112").In("type")
	}
	if done.Turns+done.ToolUses > 0 {
		r.applied = append(r.applied, done)
	}
	return f
}

// amounts are where [readAmount] stores a number, by the number's type.
type amounts = map[string]*int

// readAmount reads an optional object such as {"type":"tool_uses","value":3}. The numbers of other types become infinite.
func readAmount(v wirejson.Value, all amounts) *field.Error {
	if !v.Given() {
		return nil
	}
	kind, value := v, wirejson.Value(nil)
	if !v.Is("all") {
		if f := field.Typed(&kind, v, wirejson.Into("value", &value)); f != nil {
			return f
		}
	}
	for _, other := range all {
		*other = math.MaxInt
	}
	n := all[kind.Text()]
	switch {
	case n == nil:
		return field.Invalid("must be %s", strings.Join(slices.Sorted(maps.Keys(all)), " or ")).In("type")
	case kind.Is("all"): // it has no value
	case value.Equals("0") && !kind.Is("thinking_turns"):
		*n = 0
	default:
		return cmp.Or(field.Expect(wirejson.KindNumber, value), field.Limit(n, value)).In("value")
	}
	return nil
}

// clearThinking removes the model's reasoning except that of the newest turns with reasoning. A turn begins with a
// user's message, unless that is a text beside results. clearThinking returns how many turns it has changed, and about
// how many tokens it has removed.
func (r *Request) clearThinking(keep int) (turns, tokens int) {
	var firsts []int // of each turn with reasoning, the index of the first item
	begins := true   // the turn has no reasoning yet
	for i, m := range r.Messages {
		if m.Role == prompt.RoleUser && !begins {
			begins = r.Messages[i-1].Role != prompt.RoleTool
		} else if isReasoning(m) && begins {
			firsts, begins = append(firsts, i), false
		}
	}
	if turns = len(firsts) - keep; turns <= 0 {
		return 0, 0
	}
	older, newer := r.Messages[:firsts[turns]], r.Messages[firsts[turns]:]
	tokens = estimate(older)
	older = slices.DeleteFunc(older, isReasoning)
	r.Messages = append(older, newer...)
	return turns, tokens - estimate(older)
}

func isReasoning(m prompt.Message) bool {
	return bytes.HasPrefix(m.Item, []byte(`{"type":"reasoning"`))
}

// estimate returns about how many tokens messages have.
func estimate(messages []prompt.Message) int {
	c := prompt.Conversation{Messages: messages}
	return c.EstimateTokens(0)
}

// toolClearing is a clear_tool_uses edit.
type toolClearing struct {
	tokens, uses  int // the edit is made beyond so many of either
	keep, atLeast int // how many uses stay; how many tokens it has to save

	excluded, inputs toolNames
}

// toolNames is a set of tools. "" stands for all tools.
type toolNames map[string]bool

// read reads a list of names, or a boolean for all tools or none.
func (t toolNames) read(v wirejson.Value) *field.Error {
	if t[""] = v.IsTrue(); v.Kind() == wirejson.KindBool {
		return nil
	}
	return field.Elements(v, prompt.MaxTools, "names", func(_ int, v wirejson.Value) *field.Error {
		f := field.NonEmpty(v)
		if f == nil {
			t[v.Text()] = true
		}
		return f
	})
}

// toolUse is a result and its call. arguments are those that the call has once the use is cleared, which saves so many tokens.
type toolUse struct {
	result    *prompt.Message
	call      *prompt.Call
	arguments wirejson.Value
	savings   int
}

// clearedResult is what the model gets in place of a result.
var clearedResult = wirejson.Value(`"[This result was removed to shorten the conversation. Call the tool again if you need it.]"`)

// clearToolUses clears the results of old tool uses, and returns how many, and about how many tokens that has saved.
// It decides after each message what to clear of those before. So requests of the same conversation agree: between two
// edits, each prompt begins with the one before, which the provider has in its cache.
func (r *Request) clearToolUses(c *toolClearing) (cleared, tokens int) {
	calls := make(map[string]*prompt.Call) // the newest call with each id
	var uses []toolUse
	size, due, savings := r.EstimateTokens(0)-estimate(r.Messages), 0, 0 // the tokens so far; uses[cleared:due] can be cleared
	for i := range r.Messages {
		m := &r.Messages[i]
		size += estimate(r.Messages[i : i+1])
		for k := range m.Calls {
			calls[m.Calls[k].ID.Text()] = &m.Calls[k]
		}
		if m.Role == prompt.RoleTool {
			if use, name := r.newUse(calls[m.CallID.Text()], m, c.inputs); !c.excluded[name] {
				uses = append(uses, use)
			}
		}
		for ; due < len(uses)-c.keep; due++ {
			savings += uses[due].savings
		}
		if size <= c.tokens && len(uses)-cleared <= c.uses || savings < c.atLeast {
			continue
		}
		for _, use := range uses[cleared:due] {
			use.result.Text, use.result.Content, use.call.Arguments = clearedResult, nil, use.arguments
		}
		cleared, tokens, size, savings = due, tokens+savings, size-savings, 0
	}
	return cleared, tokens
}

// newUse returns the use of a tool, and the tool's name. emptied are the tools whose inputs are cleared, too.
func (r *Request) newUse(call *prompt.Call, result *prompt.Message, emptied toolNames) (u toolUse, name string) {
	u = toolUse{result, call, call.Arguments, 0}
	u.savings = max(0, estimate([]prompt.Message{*result})-estimate([]prompt.Message{{Text: clearedResult}}))
	name, empty := call.Name, wirejson.Value(`"{}"`)
	if name == r.deferred.functionName {
		if called, _, ok := unwrapCall(call.Arguments.Text()); ok {
			name, empty = called, wirejson.AppendString(nil, r.deferred.wrapArguments(called, emptyInput))
		}
	}
	if emptied[name] || emptied[""] {
		u.arguments = empty
		u.savings += max(0, len(call.Arguments)-len(empty)) / prompt.BytesPerToken
	}
	return u, name
}

// readCompaction reads the field compaction, which asks for a summary in place of an answer.
func (r *Request) readCompaction(v wirejson.Value) *field.Error {
	if r.Shortening = (prompt.Shortening{Summary: v.Given()}); !v.Given() {
		return nil
	}
	var kind, instructions wirejson.Value
	f := field.Typed(&kind, v, wirejson.Into("instructions", &instructions))
	return cmp.Or(f, field.OneOf(new(string), []string{"summarize"}, kind).In("type"), r.readInstructions(instructions))
}

// readInstructions reads what the model gets in place of the server's request for a summary.
func (r *Request) readInstructions(v wirejson.Value) *field.Error {
	f := field.Text(&r.Shortening.Instructions, v)
	r.Shortening.Instructions = strings.TrimSpace(r.Shortening.Instructions)
	return f.In("instructions")
}
