package markdown

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
		var fence Fence
		for i := range len(text) {
			fence.Step(text[i])
		}
		if fence.Inside() != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
	fence := AfterText()
	for _, b := range []byte("```\nx") {
		fence.Step(b)
	}
	if fence.Inside() {
		t.Error("marks behind text open a fence")
	}
}
