package fakecodex

import (
	"strings"

	"github.com/tidwall/gjson"
)

// separator ends each text of a key. No text contains it.
const separator = "\x00"

// inputKey returns the texts of a turn's input by which a recording is found.
func inputKey(input gjson.Result) string {
	var key strings.Builder
	input.ForEach(func(_, part gjson.Result) bool {
		if part.Get("type").Str == "image" {
			key.WriteString(part.Get("url").Str)
		}
		key.WriteString(part.Get("text").Str + separator)
		return true
	})
	return key.String()
}

// historyKey returns the texts of injected items by which a recording is found.
func historyKey(items gjson.Result) string {
	var key strings.Builder
	items.ForEach(func(_, item gjson.Result) bool {
		switch item.Get("type").Str {
		case "function_call":
			key.WriteString(item.Get("name").Str + separator + item.Get("arguments").Str + separator)
		case "function_call_output":
			key.WriteString(contentKey(item.Get("output")))
		case "reasoning": // see reasoningKey
		default:
			key.WriteString(contentKey(item.Get("content")))
		}
		return true
	})
	return key.String()
}

// reasoningKey returns the encrypted contents of injected items.
func reasoningKey(items gjson.Result) string {
	var key strings.Builder
	items.ForEach(func(_, item gjson.Result) bool {
		if item.Get("type").Str == "reasoning" {
			key.WriteString(item.Get("encrypted_content").Str + separator)
		}
		return true
	})
	return key.String()
}

// contentKey returns the texts of a content, which is a text or a list of parts.
func contentKey(content gjson.Result) string {
	if !content.IsArray() {
		return content.Str + separator
	}
	var key strings.Builder
	content.ForEach(func(_, part gjson.Result) bool {
		key.WriteString(part.Get("text").Str + part.Get("image_url").Str + separator)
		return true
	})
	return key.String()
}
