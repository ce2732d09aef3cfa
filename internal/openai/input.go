package openai

import (
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// splitInput takes the user message off the end of a conversation, as the input
// of the turn. The input is empty, not nil, if there is none or if it is too long.
func splitInput(messages []message) (history []message, input []codexrpc.UserInput) {
	last := len(messages) - 1
	if last < 0 || messages[last].role != roleUser || messages[last].chars() > maxInputChars {
		return messages, []codexrpc.UserInput{}
	}
	for p := range messages[last].parts() {
		if p.kind == partImage {
			input = append(input, codexrpc.UserInput{Type: "image", URL: p.url.Text(), Detail: p.detail})
		} else {
			input = append(input, codexrpc.UserInput{Type: "text", Text: p.text.Text()})
		}
	}
	return messages[:last], input
}

// chars is the number of characters (Unicode scalar values) of a message's texts.
func (m *message) chars() int {
	var bytes, chars int
	for p := range m.parts() {
		if p.kind == partText {
			bytes += len(p.text)
		}
	}
	if bytes <= maxInputChars {
		return bytes // at least, which is all that matters
	}
	for p := range m.parts() {
		if p.kind == partText {
			chars += utf8.RuneCountInString(p.text.Text())
		}
	}
	return chars
}
