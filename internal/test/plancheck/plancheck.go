// Package plancheck checks plans in tests.
package plancheck

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// toolName matches the names of tools that Codex takes.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

// Check checks what must hold for every plan.
func Check(t testing.TB, p *prompt.Plan) {
	t.Helper()
	for _, item := range p.History {
		if v, err := wirejson.Parse(item); err != nil || !bytes.Equal(v, item) {
			t.Fatalf("item %q: %v", item, err)
		}
	}
	if p.Turn.Input == nil || p.Thread.Environments == nil || *p.Thread.BaseInstructions == "" {
		t.Fatalf("plan %+v", p)
	}
	if p.Choices < 1 || p.Choices > 8 || len(p.StopSequences) > 4 || slices.Contains(p.StopSequences, "") ||
		p.MaxTokens < 0 || p.LegacyFunctions && !p.SerialTools {
		t.Fatalf("plan %+v", p)
	}
	codex, client := map[string]bool{}, map[string]bool{}
	for _, tool := range p.Thread.DynamicTools {
		name, ok := p.Tools.ClientName(tool.Name)
		if !ok || codex[tool.Name] || client[name] || !toolName.MatchString(tool.Name) || tool.Name == "mcp" || strings.HasPrefix(tool.Name, "mcp__") {
			t.Fatalf("tool %q of the client's %q", tool.Name, name)
		}
		codex[tool.Name], client[name] = true, true
		if wirejson.Value(tool.InputSchema).Kind() != wirejson.KindObject {
			t.Fatalf("schema %q", tool.InputSchema)
		}
	}
	for _, params := range []any{p.Thread, p.Turn} {
		line, err := json.Marshal(params)
		must.OK(t, err)
		if v, err := wirejson.Parse(line); err != nil || !bytes.Equal(v, line) {
			t.Fatalf("parameters %q: %v", line, err)
		}
	}
}

// Benchmark measures how long plan takes to read a body and to make its plan.
func Benchmark(b *testing.B, body []byte, plan func() (*prompt.Plan, *apierror.Error)) {
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, apiErr := plan(); apiErr != nil {
			b.Fatal(apiErr)
		}
	}
}
