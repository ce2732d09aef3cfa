package operations

import (
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestStrayCalls lets the model call nothing but a tool that nobody has given it, for ever. Codex
// asks it again each time: that ends, and sooner at the limit of a key.
func TestStrayCalls(t *testing.T) {
	file := newKeyFile(t, map[string]string{"sk-few": "tokens 1000 1h", "sk-many": "tokens 1000000 1h", "sk-any": ""})
	s := e2e.NewSite(t, "api_keys_file "+file.path)
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
