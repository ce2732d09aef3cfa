package aggregator

import "testing"

// TestFence: whether the last byte of a text is in a fenced code block.
func TestFence(t *testing.T) {
	for text, want := range map[string]bool{
		"":                       false,
		"text":                   false,
		"```\nx":                 true,
		"~~~ sh\nx":              true,
		"``\nx":                  false,
		"    ```\nx":             false,
		"   ```\r\nx":            true,
		"a ```\nx":               false,
		"```a`\nx":               false,
		"``` info":               true, // the line that opens one
		"```\n```\nx":            false,
		"````\n```\nx":           true,
		"```\n~~~\nx":            true,
		"```\n```` \t\nx":        false,
		"```\n``` x\nx":          true,
		"```\n```\n~~~\nx":       true,
		"```\n    ```\nx":        true,
		"```\nx\n```\n\n~~~\n~~": true,
	} {
		var fence codeFence
		for i := range len(text) {
			fence.step(text[i])
		}
		if fence.inside() != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
	fence := fenceAfterText()
	for _, b := range []byte("```\nx") {
		fence.step(b)
	}
	if fence.inside() {
		t.Error("marks behind text open a fence")
	}
}
