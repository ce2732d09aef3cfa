package prompt

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/seal"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Shortening is what a request says about the length of its conversation.
type Shortening struct {
	Summary      bool   // the answer is a summary of the conversation, and nothing else
	Above        int    // the conversation is summarised before the answer if it has more tokens; 0: it is not
	Pause        bool   // after a summary because of Above, no answer follows
	Hidden       bool   // the API has no form for a summary: it is made only if the operator wants that, and the client does not get it
	UsersStay    bool   // the client sends the user's messages beside the summary that is the answer
	Instructions string // what the model is asked for instead of SummaryRequest; empty: that
}

// FullWindow is an Above that leaves the number of tokens to the server: the model's window decides.
const FullWindow = math.MaxInt32

// SummaryRequest is the message of the user that asks the model for a summary of the conversation.
const SummaryRequest = `Your next message will replace all of the conversation up to here: whoever goes on with it, which is you, will have that text and nothing else. Write it now, as plain text. Call no tool, and do not answer the message before this one. Write down:

- what the user wants, and every rule, wish and limit that still holds, in the user's own words where they matter;
- what was done and found: decisions and their reasons, facts, names, numbers, ids, paths, and pieces of code or text that are still needed, letter by letter;
- what a summary above says: it will be gone, too, so repeat all of it that may be needed;
- where things stand: what is half done, what has failed and why, and what comes next.

Leave out only what nobody will need again.`

// summaryHead comes before a summary when the model reads it.
const summaryHead = "What follows is your own summary of the conversation up to here, whose messages are gone. Go on from there as if you " +
	"still had them: do not begin anew what is done, and do not mention the summary.\n\n"

// NewSummary returns the message with which the model reads a summary.
func NewSummary(text string) Message {
	m := Message{Text: wirejson.AppendString(nil, summaryHead+text)}
	item := m.appendMessage(nil, "user", "input_text")
	return Message{Role: RoleItem, Item: item, Size: len(item)}
}

// sealedContent is what is sealed for the client: messages in the place of those of the conversation so far.
type sealedContent struct {
	UsersStay bool            `json:"users_stay,omitempty"` // the client sends the user's messages, and instructions, beside it
	Messages  []sealedMessage `json:"messages"`
}

type sealedMessage struct {
	Role Role   `json:"role"`
	Text string `json:"text"`
}

// roleSummary is the role of a summary in a sealedContent.
const roleSummary Role = "summary"

func (s *sealedContent) add(messages []Message) {
	for i := range messages {
		var texts []string
		for p := range messages[i].Parts() {
			texts = append(texts, p.Text.Text())
		}
		s.Messages = append(s.Messages, sealedMessage{messages[i].Role, strings.Join(texts, "\n\n")})
	}
}

// SealedSummary returns a function that returns what is sealed of a summary that is the whole answer.
func (c *Conversation) SealedSummary() func(text string) []byte {
	content := sealedContent{UsersStay: c.Shortening.UsersStay}
	if !content.UsersStay {
		content.add(instructionsOf(c.Messages[c.Repeated:]))
	}
	return func(text string) []byte {
		all := append(slices.Clip(content.Messages), sealedMessage{roleSummary, text})
		return wirejson.Append(nil, sealedContent{content.UsersStay, all})
	}
}

// Shorten puts a summary in the place of the first covered messages. Instructions stay. The user's last message stays,
// too: after the summary if it is the last of all, since it has no answer yet, else before it, if it is short.
// sealed is what is sealed of that for the client; nil: messages follow that are not covered.
func (c *Conversation) Shorten(covered int, text string) (sealed []byte) {
	shorter, rest := instructionsOf(c.Messages[:covered]), c.Messages[covered:]
	var content sealedContent
	content.add(shorter[c.Repeated:])
	last := len(c.Messages) - 1
	question := last
	for question >= 0 && c.Messages[question].Role != RoleUser {
		question--
	}
	if question >= 0 && question < min(covered, last) && c.Messages[question].isShort() {
		shorter = append(shorter, c.Messages[question])
		content.add(c.Messages[question : question+1])
	}
	content.Messages = append(content.Messages, sealedMessage{roleSummary, text})
	if len(rest) == 0 {
		if question == last {
			if rest = c.Messages[last:]; rest[0].isShort() {
				content.add(rest)
			}
		}
		sealed = wirejson.Append(nil, content)
	}
	c.Messages = append(append(shorter, NewSummary(text)), rest...)
	return sealed
}

// maxKeptQuestion is how many bytes a message of the user may have to stay beside a summary, which says what is
// in a longer one.
const maxKeptQuestion = 32 << 10

// isShort reports whether a message of the user may stay beside a summary: a short text.
func (m *Message) isShort() bool {
	parts := 0
	for p := range m.Parts() {
		if parts++; p.URL != nil {
			return false
		}
	}
	return parts == 1 && m.Size <= maxKeptQuestion
}

func instructionsOf(messages []Message) []Message {
	return slices.DeleteFunc(slices.Clone(messages), func(m Message) bool { return !m.Role.isInstruction() })
}

// Leading returns how many of the first messages have together at most this share of all text, from 0 to 1,
// and have a result for each of their calls; at least one message, if the first can stand alone.
func (c *Conversation) Leading(share float64) (n int) {
	total, size, open := 0, 0, 0
	for i := range c.Messages {
		total += c.Messages[i].textSize()
	}
	for i := range c.Messages {
		m := &c.Messages[i]
		if size += m.textSize(); n > 0 && float64(size) > share*float64(total) {
			return n
		}
		if open += len(m.Calls); m.Role == RoleTool {
			open--
		}
		if open <= 0 && !m.Role.isInstruction() {
			n = i + 1
		}
	}
	return n
}

func (m *Message) textSize() (bytes int) {
	for p := range m.Parts() {
		bytes += len(p.Text)
	}
	for i := range m.Calls {
		bytes += len(m.Calls[i].Arguments)
	}
	return bytes + len(m.Item)
}

// forSummary returns the messages with the request for a summary at the end. A call without a result is left
// out: Codex would invent the result.
func (c *Conversation) forSummary(messages []Message) []Message {
	answered := answeredCalls(messages)
	asked := slices.DeleteFunc(slices.Clone(messages), func(m Message) bool { return m.hasOpenCalls(answered) })
	text := wirejson.AppendString(nil, cmp.Or(c.Shortening.Instructions, SummaryRequest))
	return append(asked, Message{Role: RoleUser, Text: text, Size: len(text)})
}

func answeredCalls(messages []Message) map[string]bool {
	answered := make(map[string]bool)
	for i := range messages {
		if messages[i].Role == RoleTool {
			answered[messages[i].CallID.Text()] = true
		}
	}
	return answered
}

func (m *Message) hasOpenCalls(answered map[string]bool) bool {
	return slices.ContainsFunc(m.Calls, func(call Call) bool { return !answered[call.ID.Text()] })
}

// maxKeptUsers is how many bytes of the user's messages before a sealed summary the model gets, the newest
// ones: some 64,000 tokens, as many as Codex sends beside a summary.
const maxKeptUsers = 256 << 10

// OpenSummaries replaces the newest sealed summary by its content, which open returns, and removes what it has
// replaced: all messages before it, except those that the client repeats, instructions and the user's messages
// if they stay, and calls that still wait for a result, which then follow the summary.
func (c *Conversation) OpenSummaries(open func(sealed string) ([]byte, error)) *apierror.Error {
	newest := len(c.Messages) - 1
	for newest >= 0 && c.Messages[newest].Role != RoleSealed {
		newest--
	}
	if newest < 0 {
		return nil
	}
	sealed := c.Messages[newest].Item
	var content sealedContent
	opened, err := open(sealed.Text())
	if err != nil && !errors.Is(err, seal.ErrUnreadable) {
		return apierror.StoreUnavailable()
	}
	if err == nil {
		err = json.Unmarshal(opened, &content)
	}
	if err != nil {
		return c.at(sealed, field.Invalid("the summary cannot be read: %s", err)).APIError()
	}
	before, after := c.Messages[:newest], c.Messages[newest+1:]
	c.Messages = slices.Clone(before[:c.Repeated])
	if content.UsersStay {
		c.Messages = keptBeside(before)
	}
	for _, m := range content.Messages {
		if m.Role == roleSummary {
			c.Messages = append(c.Messages, NewSummary(m.Text))
		} else {
			text := wirejson.AppendString(nil, m.Text)
			c.Messages = append(c.Messages, Message{Role: m.Role, Text: text, Size: len(text)})
		}
	}
	answered := answeredCalls(before)
	for i := range before {
		if before[i].hasOpenCalls(answered) {
			c.Messages = append(c.Messages, before[i])
		}
	}
	c.Messages = append(c.Messages, after...)
	return nil
}

// ReplacesAll reports whether nothing before a sealed summary with this content matters any more.
func ReplacesAll(opened []byte) bool {
	var content sealedContent
	return json.Unmarshal(opened, &content) == nil && !content.UsersStay
}

// keptBeside returns the instructions, and the newest of the user's messages.
func keptBeside(messages []Message) (kept []Message) {
	size := 0
	for _, m := range slices.Backward(messages) {
		if m.Role == RoleUser {
			size += m.textSize()
		}
		if m.Role.isInstruction() || m.Role == RoleUser && size <= maxKeptUsers {
			kept = append(kept, m)
		}
	}
	slices.Reverse(kept)
	return kept
}
