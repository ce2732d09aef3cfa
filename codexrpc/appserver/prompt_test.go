package appserver

import "testing"

// TestPrompt checks with which models the base prompt is sent twice.
func TestPrompt(t *testing.T) {
	local := New(Config{Command: []string{"codex"}}, nil)
	local.models = &catalogue{models: []Model{{Slug: "lite", Prompt: "L", Lite: true}, {Slug: "full", Prompt: "F"}}}
	lite, full := local.models.models[0], local.models.models[1]
	for model, want := range map[string]Model{
		"lite": lite, "lite-2026-01-01": lite, "full": full, "other": {}, "": {},
	} {
		if got := local.Model(model); got != want {
			t.Errorf("%q: %+v", model, got)
		}
	}
	for version, twice := range map[string]bool{"0.150.0": false, "0.165.9": false, "0.166.0": true, "1.0.0": true, "unknown": true} {
		far := New(Config{Connect: "ws://127.0.0.1:1"}, nil)
		far.status.Version = version
		if got := far.Model("lite"); got != (Model{Lite: twice}) {
			t.Errorf("%s: %+v", version, got)
		}
		far.Stop()
	}
	local.Stop()
}
