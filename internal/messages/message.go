package messages

import (
	"bytes"
	"cmp"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/seal"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// readMessages reads the conversation. One message of the body may become several messages: each result of
// a tool, and each text, call and reasoning item of the model, becomes a message of its own.
func (r *Request) readMessages(v wirejson.Value) *field.Error {
	if f := field.Expect(wirejson.KindArray, v); f != nil {
		return f
	}
	h := history{request: r}
	before := len(r.Messages)
	c := wirejson.NewCursor(v)
	c.Enter()
	for ; c.Next(); h.messageIndex++ {
		if f := h.readMessage(c); f != nil {
			return f
		}
	}
	if len(r.Messages) == before {
		return field.Invalid("must hold at least one message with a content")
	}
	return h.checkResults()
}

// history reads the messages of a conversation.
type history struct {
	request      *Request
	messageIndex int                    // the index of the message that is being read
	pendingCalls map[string]pendingCall // the calls without results, by their ids
	userFollowed bool                   // a user's message has followed the newest calls; the next assistant's message needs all results
}

// pendingCall is the place of a call without a result: the indexes of its message and of its block.
type pendingCall struct{ message, block int }

func (h *history) readMessage(c *wirejson.Cursor) *field.Error {
	var role, content, config wirejson.Value
	v := c.Pick(wirejson.Into("role", &role), wirejson.Into("content", &content), wirejson.Into("output_config", &config))
	f := field.Expect(wirejson.KindObject, v)
	if f = cmp.Or(f, field.Expect(wirejson.KindString, role).In("role")); f != nil {
		return f.At(h.messageIndex)
	}
	switch {
	case role.Is("user"):
		h.userFollowed = true
		return h.readUserMessage(content).In("content").At(h.messageIndex)
	case role.Is("assistant"):
		// Directly after an assistant's message, this one continues it, so its calls may still wait.
		if f := h.checkResults(); h.userFollowed && f != nil {
			return f
		}
		h.userFollowed = false
		return h.eachBlock(content, h.readAssistantBlock).In("content").At(h.messageIndex)
	case role.Is("system"): // a message with only an output_config is left out: the body's output_config counts
		if !content.Given() && config.Given() {
			return nil
		}
		return h.readSystemMessage(content).In("content").At(h.messageIndex)
	}
	return field.Invalid("must be one of user, assistant, system").In("role").At(h.messageIndex)
}

// rawBlock has the members of a block of any type. One pass over the JSON finds all of them.
type rawBlock struct {
	value wirejson.Value
	kind  string // the type; empty: the content is a string, which counts as one block

	text, content, source, title, context wirejson.Value
	id, name, input, thinking, signature  wirejson.Value
	toolUseID, isError, toolName, tool    wirejson.Value
	encrypted                             wirejson.Value
}

func (b *rawBlock) read(c *wirejson.Cursor) *field.Error {
	var kind wirejson.Value
	b.value = c.PickTyped(&kind, wirejson.Into("text", &b.text), wirejson.Into("content", &b.content), wirejson.Into("source", &b.source),
		wirejson.Into("title", &b.title), wirejson.Into("context", &b.context), wirejson.Into("id", &b.id), wirejson.Into("name", &b.name),
		wirejson.Into("input", &b.input), wirejson.Into("thinking", &b.thinking), wirejson.Into("signature", &b.signature),
		wirejson.Into("tool_use_id", &b.toolUseID), wirejson.Into("is_error", &b.isError), wirejson.Into("tool_name", &b.toolName),
		wirejson.Into("tool", &b.tool), wirejson.Into("encrypted_content", &b.encrypted))
	b.kind, _ = kind.AsText()
	return cmp.Or(field.Expect(wirejson.KindObject, b.value), field.NonEmpty(kind).In("type"))
}

// eachBlock calls read for each block of a content: a list of blocks, or a text, which counts as one.
func (h *history) eachBlock(v wirejson.Value, read func(i int, b *rawBlock) *field.Error) *field.Error {
	switch v.Kind() {
	case wirejson.KindString:
		return read(0, &rawBlock{value: v, text: v})
	case wirejson.KindArray:
		c := wirejson.NewCursor(v)
		c.Enter()
		b := new(rawBlock)
		for i := 0; c.Next(); i++ {
			if i == prompt.MaxItems {
				return prompt.TooManyItems()
			}
			*b = rawBlock{}
			f := b.read(c)
			if f == nil {
				f = read(i, b)
			}
			if f != nil {
				return f.At(i)
			}
		}
		return nil
	}
	return field.WrongType("a string or an array of blocks", v)
}

func (h *history) add(m prompt.Message) *field.Error {
	if m.Empty() && len(m.Calls) == 0 && m.Item == nil {
		return nil
	}
	h.request.Messages = append(h.request.Messages, m)
	return h.request.Count(&m)
}

// readUserMessage reads a user's message. The tool results in it become messages before the message with
// its texts and images.
func (h *history) readUserMessage(v wirejson.Value) *field.Error {
	m := prompt.Message{Role: prompt.RoleUser}
	if v.Kind() == wirejson.KindString && len(v.RawText()) > 0 { // a string is the same as one text block
		m.Text, m.Size = v, len(v)
		return h.add(m)
	}
	f := h.eachBlock(v, func(_ int, b *rawBlock) *field.Error {
		if b.kind == "tool_result" {
			return h.readResult(b)
		}
		m.Size += len(b.value)
		return h.readBlock(&m, b)
	})
	return cmp.Or(f, h.add(m))
}

func (h *history) readResult(b *rawBlock) *field.Error {
	id := b.toolUseID
	f := cmp.Or(field.NonEmpty(id).In("tool_use_id"), field.Optional(wirejson.KindBool, b.isError).In("is_error"))
	if f != nil {
		return f
	}
	if _, pending := h.pendingCalls[id.Text()]; !pending {
		return field.Invalid("there is no tool_use block %.64q in the message before that waits for a result", id.Text()).In("tool_use_id")
	}
	delete(h.pendingCalls, id.Text())
	m := prompt.Message{Role: prompt.RoleTool, CallID: id, Size: len(b.value)}
	if b.content.Given() {
		f = h.eachBlock(b.content, func(_ int, b *rawBlock) *field.Error { return h.readBlock(&m, b) }).In("content")
	}
	m.Fill()
	return cmp.Or(f, h.add(m))
}

// checkResults fails if a call still has no result: Codex would silently invent one.
func (h *history) checkResults() *field.Error {
	if len(h.pendingCalls) == 0 {
		return nil
	}
	var id string
	var first pendingCall
	for other, call := range h.pendingCalls {
		if id == "" || call.message < first.message || call.message == first.message && call.block < first.block {
			id, first = other, call
		}
	}
	return field.Invalid("must be followed by a message with a tool_result block for %.64q", id).
		In("id").At(first.block).In("content").At(first.message)
}

func (h *history) readAssistantBlock(i int, b *rawBlock) *field.Error {
	switch b.kind {
	case "", "text":
		f := field.Expect(wirejson.KindString, b.text).In("text")
		if f != nil || len(bytes.TrimSpace(b.text.Bytes())) == 0 { // white space alone is skipped, as clients do, too
			return f
		}
		return h.add(prompt.Message{Role: prompt.RoleAssistant, Text: b.text, Size: len(b.value)})
	case "tool_use":
		return h.readCall(i, b)
	case "thinking":
		return h.readThinkingBlock(b)
	case "compaction":
		return h.readSummary(b)
	}
	return nil // all other blocks are left out: only models of another provider can read them
}

// readSummary reads a summary of the conversation: no message before it counts any more. One of another server is
// read as it is. A block without a text is left out: that summary has failed.
func (h *history) readSummary(b *rawBlock) *field.Error {
	text, sealed := b.content, b.encrypted
	if !text.Given() {
		return nil
	}
	if f := cmp.Or(field.NonEmpty(text).In("content"), field.Optional(wirejson.KindString, sealed).In("encrypted_content")); f != nil {
		return f
	}
	r := h.request
	r.Messages, h.pendingCalls = r.Messages[:r.Repeated], nil
	clear(r.deferred.described)
	m := prompt.NewSummary(text.Text())
	if sealed.Given() && seal.IsSealed(sealed.Text()) {
		m = prompt.Message{Role: prompt.RoleSealed, Text: text, Item: sealed, Size: len(b.value)}
	}
	return h.add(m)
}

// readCall reads a call of the model. A call of a deferred tool becomes a call of the function for deferred
// tools.
func (h *history) readCall(i int, b *rawBlock) *field.Error {
	id, name, input := b.id, b.name, b.input
	call := prompt.Call{ID: id}
	f := cmp.Or(field.NonEmpty(id).In("id"), prompt.ReadCalledName(&call.Name, name).In("name"), field.Expect(wirejson.KindObject, input).In("input"))
	if f != nil {
		return f
	}
	if _, twice := h.pendingCalls[id.Text()]; twice {
		return field.Invalid("the id %.64q is used twice", id.Text()).In("id")
	}
	if h.pendingCalls == nil {
		h.pendingCalls = make(map[string]pendingCall)
	}
	h.pendingCalls[id.Text()] = pendingCall{h.messageIndex, i}
	call.Arguments = wirejson.AppendString(nil, unwrapUnparsed(input))
	if d := &h.request.deferred; d.has(call.Name) {
		call.Arguments, call.Name = wirejson.AppendString(nil, d.wrapArguments(call.Name, input)), d.functionName
	}
	return h.add(prompt.Message{Role: prompt.RoleAssistant, Calls: []prompt.Call{call}, Size: len(b.value) + len(call.Arguments)})
}

// readSystemMessage reads a message of the role system, which may be anywhere in the conversation.
// Blocks that add or remove a tool become texts for the model.
func (h *history) readSystemMessage(v wirejson.Value) *field.Error {
	m := prompt.Message{Role: prompt.RoleDeveloper}
	f := h.eachBlock(v, func(_ int, b *rawBlock) *field.Error {
		m.Size += len(b.value)
		text := b.text
		switch b.kind {
		case "", "text":
		case "tool_addition", "tool_removal":
			var name wirejson.Value
			f := field.Object(b.tool, wirejson.Into("name", &name))
			if f = cmp.Or(f, field.NonEmpty(name).In("name")); f != nil {
				return f.In("tool")
			}
			notice := "The tool " + name.Text() + " cannot be called any more."
			if b.kind == "tool_addition" {
				notice = h.request.deferred.describe(name.Text())
			}
			text = wirejson.AppendString(nil, notice)
			m.Size += len(text)
		default:
			return field.Invalid("must be text, tool_addition or tool_removal in a message of the role system").In("type")
		}
		f := field.Expect(wirejson.KindString, text).In("text")
		if f == nil && len(text.RawText()) > 0 {
			m.Content = append(m.Content, prompt.Part{Text: text})
		}
		return f
	})
	return cmp.Or(f, h.add(m))
}
