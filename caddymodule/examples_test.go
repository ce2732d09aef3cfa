package caddymodule

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// exampleFiles returns the paths of all Caddyfiles of the examples.
func exampleFiles(t *testing.T) []string {
	t.Helper()
	files := []string{"../Caddyfile.example"}
	for _, pattern := range []string{"../examples/*.Caddyfile", "../examples/*/Caddyfile", "../examples/*/*.Caddyfile"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		files = append(files, found...)
	}
	return files
}

// TestExamples: every example is valid, and formatted as by caddy fmt.
func TestExamples(t *testing.T) {
	for _, name := range []string{"ALICE_KEY", "BOB_KEY", "CLIENT_KEY", "REDIS_PASSWORD"} {
		t.Setenv(name, name)
	}
	t.Setenv("TURN_LOG", filepath.Join(t.TempDir(), "turns.log"))
	t.Setenv("KEYS", writeKeys(t, nil))
	for _, file := range exampleFiles(t) {
		adapted, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(readText(t, file)), nil)
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v", file, warnings, err)
			continue
		}
		var config caddy.Config
		if err := json.Unmarshal(adapted, &config); err != nil {
			t.Fatal(err)
		}
		if err := caddy.Validate(&config); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
