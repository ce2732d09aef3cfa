package operations

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestOwnTools removes what keeps Codex from offering its own tools, the changed entry of a model.
// A call of one fails the request, and nothing that Codex made of it is passed on.
func TestOwnTools(t *testing.T) {
	e2e.OwnTemp(t)
	e2e.WithLogin(t)
	s := e2e.NewSite(t, "")
	catalogue, err := planbackend.Catalogue(e2e.CodexBinary)
	must.OK(t, err)
	files, err := filepath.Glob(filepath.Join(e2e.PrivateDirs(t)[0], "home-*", "model-*.json"))
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

// TestStrayCalls: endless calls of a tool that nobody has given end, and sooner at a key's limit.
func TestStrayCalls(t *testing.T) {
	file := e2e.NewKeyFile(t, map[string]string{"sk-few": "tokens 1000 1h", "sk-many": "tokens 1000000 1h", "sk-any": ""})
	s := e2e.NewSite(t, "api_keys_file "+file.Path)
	defer s.Model.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) {
		return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Call{Name: "stray", Arguments: "{}"}}}, true
	})()
	for key, rounds := range map[string]int{"sk-few": 6, "sk-many": 16, "sk-any": 16} {
		before := s.Model.Stats().Requests
		response, text := s.Post(e2e.ChatBody("call", nil), e2e.Bearer(key))
		// Codex may ask some times more before it reads that the turn is over.
		if asked := s.Model.Stats().Requests - before; asked < rounds || asked > 2*rounds+8 {
			t.Errorf("%s: the model was asked %d times, want %d", key, asked, rounds)
		}
		if !strings.Contains(text, `"finish_reason":"length"`) {
			t.Errorf("%s: %s", key, text)
		}
		if spent := response.Header.Get("X-Codex-Key-Budget"); (spent != "") != (key == "sk-few") {
			t.Errorf("%s: the budget is %q", key, spent)
		}
	}
}
