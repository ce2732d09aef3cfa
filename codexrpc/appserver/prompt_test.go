package appserver

import "testing"

// TestPrompt checks with which models the base prompt is sent twice.
func TestPrompt(t *testing.T) {
	local := New(Config{Command: []string{"codex"}}, nil)
	local.models = catalogue{models: []modelEntry{{Slug: "lite", Prompt: "L", Lite: true}, {Slug: "full", Prompt: "F"}}}
	for model, want := range map[string]Prompt{
		"lite": {Own: "L", Twice: true}, "lite-2026-01-01": {Own: "L", Twice: true}, "full": {Own: "F"}, "other": {}, "": {},
	} {
		if got := local.Prompt(model); got != want {
			t.Errorf("%q: %+v", model, got)
		}
	}
	for version, twice := range map[string]bool{"0.150.0": false, "0.165.9": false, "0.166.0": true, "1.0.0": true, "unknown": true} {
		far := New(Config{Connect: "ws://127.0.0.1:1"}, nil)
		far.status.Version = version
		if got := far.Prompt("lite"); got != (Prompt{Twice: twice}) {
			t.Errorf("%s: %+v", version, got)
		}
		far.Stop()
	}
	local.Stop()
}
