package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// required are the fields that OpenAI's OpenAPI description (2.3.0) requires of what this package
// writes, by the place in the body: [] stands for each element of an array.
var required = map[string]map[string]string{
	"CreateChatCompletionResponse": {
		"":                               "choices created id model object",
		"choices[]":                      "finish_reason index message logprobs",
		"choices[].message":              "role content refusal",
		"usage":                          "prompt_tokens completion_tokens total_tokens",
		"choices[].message.tool_calls[]": "id type function",
		"choices[].message.tool_calls[].function": "name arguments",
		"choices[].message.function_call":         "name arguments",
	},
	"CreateChatCompletionStreamResponse": {
		"":                             "choices created id model object",
		"choices[]":                    "delta finish_reason index",
		"choices[].delta.tool_calls[]": "index",
		"usage":                        "prompt_tokens completion_tokens total_tokens",
	},
}

func at(v any, place string) []any {
	if place == "" {
		return []any{v}
	}
	name, rest, _ := strings.Cut(place, ".")
	name, array := strings.CutSuffix(name, "[]")
	object, ok := v.(map[string]any)
	if !ok || object[name] == nil {
		return nil
	}
	if !array {
		return at(object[name], rest)
	}
	var found []any
	for _, element := range object[name].([]any) {
		found = append(found, at(element, rest)...)
	}
	return found
}

// checkRequired returns how many places of the schema the body has.
func checkRequired(t *testing.T, schema string, body []byte) map[string]int {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%s: %s\n%v", schema, body, err)
	}
	places := map[string]int{}
	for place, fields := range required[schema] {
		for _, object := range at(v, place) {
			places[place]++
			for _, field := range strings.Fields(fields) {
				if _, ok := object.(map[string]any)[field]; !ok {
					t.Errorf("%s: %q lacks %s: %s", schema, place, field, body)
				}
			}
		}
	}
	return places
}

func TestRequiredFields(t *testing.T) {
	outs := []turn.Output{
		reasoningOut("", "hm"), textOut("x"), callOut(0, "c", "f", "{}"), finishOut(turn.FinishToolCalls),
	}
	meta := testMeta
	meta.IncludeUsage = true
	several, legacy := meta, meta
	several.Choices, legacy.LegacyFunctions = 2, true
	all := append(alone(outs), said{1, textOut("y")}, said{1, finishOut(turn.FinishStop)})
	bodies := map[string][][]byte{
		"CreateChatCompletionResponse": {
			bodyOf(t, outs).JSON(), bodyOfAll(t, several, all).JSON(), bodyOfAll(t, legacy, alone(outs)).JSON(),
		},
	}
	for _, frames := range [][]string{chunks(t, meta, outs), chunksOf(t, several, all), chunks(t, legacy, outs)} {
		for _, frame := range frames {
			bodies["CreateChatCompletionStreamResponse"] = append(bodies["CreateChatCompletionStreamResponse"], []byte(frame))
		}
	}
	for schema := range required {
		seen := map[string]int{}
		for _, body := range bodies[schema] {
			for place, n := range checkRequired(t, schema, body) {
				seen[place] += n
			}
		}
		for place := range required[schema] {
			if seen[place] == 0 {
				t.Errorf("%s: nothing was found at %q", schema, place)
			}
		}
	}
}
