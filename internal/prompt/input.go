package prompt

import (
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// splitInput splits a user message at the end off a conversation. It becomes the input
// of the turn. The input is empty, not nil, if there is no such message or if it is too
// long.
func splitInput(messages []Message) (history []Message, input []codexrpc.UserInput) {
	last := len(messages) - 1
	if last < 0 || messages[last].Role != RoleUser || messages[last].chars() > maxInputChars {
		return messages, []codexrpc.UserInput{}
	}
	for p := range messages[last].Parts() {
		if p.Kind == PartImage {
			input = append(input, codexrpc.UserInput{Type: "image", URL: p.URL.Text(), Detail: p.Detail})
		} else {
			input = append(input, codexrpc.UserInput{Type: "text", Text: p.Text.Text()})
		}
	}
	return messages[:last], input
}

// chars returns the number of characters (Unicode scalar values) of the texts of a
// message.
func (m *Message) chars() int {
	var bytes, chars int
	for p := range m.Parts() {
		if p.Kind == PartText {
			bytes += len(p.Text)
		}
	}
	if bytes <= maxInputChars {
		return bytes // at least, which is all that matters
	}
	for p := range m.Parts() {
		if p.Kind == PartText {
			chars += utf8.RuneCountInString(p.Text.Text())
		}
	}
	return chars
}
