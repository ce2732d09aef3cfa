package conversations

import (
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestFormsOfResults checks that the model is given the result of a call in the same form by a
// parked turn as by a new thread: another form would cost the provider's cache.
func TestFormsOfResults(t *testing.T) { e2e.OverBoth(t, testFormsOfResults) }

func testFormsOfResults(t *testing.T) {
	kept, fresh := pairOfSites(t, "api_key ann-key ann")
	text := func(s string) map[string]any { return map[string]any{"type": "text", "text": s} }
	image := func(detail string) map[string]any {
		url := map[string]any{"url": e2e.Pixel}
		if detail != "" {
			url["detail"] = detail
		}
		return map[string]any{"type": "image_url", "image_url": url}
	}
	for name, content := range map[string]any{
		"a text":                  "found",
		"an empty text":           "",
		"a list of one text":      []any{text("found")},
		"a list of two texts":     []any{text("found"), text("more")},
		"an image":                []any{image("")},
		"an image with a detail":  []any{image("high")},
		"an image of auto detail": []any{image("auto")},
		"a text and an image":     []any{text("found"), image("low")},
	} {
		one := talk{user: "ann", system: "Talk about " + name, messages: []chatMessage{
			{"role": "user", "content": "tool: find {}\nthen\nsay: done"}}}
		message := sayIn(t, kept, &one, false)
		call, _ := message["tool_calls"].([]any)[0].(map[string]any)
		one.messages = append(one.messages, message, chatMessage{"role": "tool", "tool_call_id": call["id"], "content": content})
		var outputs []string
		for _, s := range []*e2e.Site{kept, fresh} {
			if answer := sayIn(t, s, &one, false); answer["content"] != "done" {
				t.Errorf("%s: answered with %v", name, answer)
			}
			all := s.Model.Requests()
			output := gjson.GetBytes(all[len(all)-1].Body, `input.#(type=="function_call_output").output`)
			outputs = append(outputs, output.Raw)
		}
		if len(outputs) != 2 || outputs[0] != outputs[1] {
			t.Errorf("%s: %q", name, outputs)
		}
	}
}
