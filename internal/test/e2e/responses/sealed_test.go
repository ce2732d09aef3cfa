package responses

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestSealedSummary: a summary from /v1/responses/compact can be read by its user alone, unchanged, also
// after a reload and the death of the app-server. Otherwise the error names the item.
func TestSealedSummary(t *testing.T) {
	s := e2e.NewSite(t, "api_key sk-ann ann\napi_key sk-bob bob\nrealm one")
	ann, bob := e2e.Bearer("sk-ann"), e2e.Bearer("sk-bob")
	conversation := e2e.Asks([]any{e2e.Says("user", "Remember this."), e2e.Says("assistant", "FACT secret = 4711")}, nil)
	answer, body := s.Call(http.MethodPost, "/v1/responses/compact", conversation, ann)
	var compacted struct{ Output []map[string]any }
	if err := json.Unmarshal([]byte(body), &compacted); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status, body)
	}
	if len(compacted.Output) != 2 || compacted.Output[1]["type"] != "compaction" {
		t.Fatal(body)
	}
	sealed, _ := compacted.Output[1]["encrypted_content"].(string)
	asks := func(sealed string) e2e.Fields {
		return e2e.Asks([]any{compacted.Output[0], e2e.Fields{"type": "compaction", "encrypted_content": sealed}, e2e.Says("user", "RECALL secret")}, nil)
	}
	e2e.Kill(t, "codex")
	s.Load(s.Caddyfile("api_key sk-ann ann\napi_key sk-bob bob\nrealm one\nollama on"))
	s.WaitReady()
	if text := s.Respond(asks(sealed), ann).Text(); text != "4711" {
		t.Errorf("the model knows %q", text)
	}
	refused := func(what, sealed string, header http.Header) {
		t.Helper()
		answer, refused := s.RefuseResponse(asks(sealed), header)
		if param := refused.Error.Param; answer.StatusCode != http.StatusBadRequest || param == nil || *param != "input[1].encrypted_content" {
			t.Errorf("%s: %s %+v", what, answer.Status, refused.Error)
		}
	}
	refused("another user", sealed, bob)
	for _, at := range []int{20, len(sealed) / 2, len(sealed) - 2} {
		changed := []byte(sealed)
		if changed[at]++; changed[at] > 'z' {
			changed[at] = 'a'
		}
		refused("a changed byte", string(changed), ann)
	}
	refused("half of it", sealed[:len(sealed)/2], ann)
}
