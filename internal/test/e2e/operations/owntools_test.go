package operations

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// TestOwnTools takes away what keeps Codex from offering its own tools, the changed entry of a
// model, and lets the model call one of them: the request fails, and nothing that Codex made of
// the call is passed on.
func TestOwnTools(t *testing.T) {
	ownTemp(t)
	e2e.WithLogin(t)
	s := e2e.NewSite(t, "")
	catalogue, err := planbackend.Catalogue(e2e.CodexBinary)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(privateDirs(t)[0], "home-*", "model-*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no entries of models (%v)", err)
	}
	const model = "gpt-6-sol"
	for _, file := range files {
		if !strings.Contains(e2e.ReadFile(t, file), `"slug":"`+model+`"`) {
			continue
		}
		for _, entry := range catalogue {
			if gjson.GetBytes(entry, "slug").Str == model {
				e2e.WriteFile(t, file, `{"models":[`+string(entry)+`]}`)
			}
		}
	}
	for _, stream := range []bool{false, true} {
		begin := time.Now()
		response, text := s.Post(e2e.ChatBody("tool:list_mcp_resources {}; then; say:an answer", e2e.Fields{
			"model": model, "stream": stream, "tools": []any{e2e.Tool("localSearch")}, "parallel_tool_calls": false,
		}), nil)
		if response.StatusCode != http.StatusBadGateway && !e2e.IsLate(response, begin) || !strings.Contains(text, "codex_error") || !strings.Contains(text, "a tool of its own") || strings.Contains(text, "an answer") {
			t.Errorf("%s %s", response.Status, text)
		}
	}
}
