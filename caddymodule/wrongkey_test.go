package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	zaptest "go.uber.org/zap/zaptest/observer"
)

// TestWrongKeyLog checks that a wrong key is a line of the log without the key, and that
// many are few lines.
func TestWrongKeyLog(t *testing.T) {
	core, logs := zaptest.New(zap.InfoLevel)
	begin := time.Now().Unix() / 60
	h := started(t, APIKey{Key: "right"})
	h.refusalLogger = zap.New(core)
	refused := func(key string) map[string]any {
		t.Helper()
		if w, err := ask(h, http.MethodGet, "/v1/models?key=s3cret", key, nil); err != nil || w.Code != http.StatusUnauthorized {
			t.Fatalf("%d, %v", w.Code, err)
		}
		lines := logs.TakeAll()
		if len(lines) != 1 {
			t.Fatalf("%d lines", len(lines))
		}
		return lines[0].ContextMap()
	}
	line := refused("s3cret")
	if line["missing"] != false || line["path"] != "/v1/models" || line["method"] != "GET" || line["request_id"] == "" {
		t.Errorf("the line has %v", line)
	}
	for name, value := range line {
		if text, _ := value.(string); strings.Contains(text, "s3cret") {
			t.Errorf("%s has the key: %q", name, text)
		}
	}
	if line := refused(""); line["missing"] != true {
		t.Errorf("the line has %v", line)
	}
	h.Page = true
	for path, handshake := range map[string]string{"/codex/status": "", "/v1/responses": "websocket"} {
		w := askWith(h, http.MethodGet, path, "", http.Header{"Authorization": {"Bearer s3cret"}, "Upgrade": {handshake}}, nobody)
		if lines := logs.TakeAll(); w.Code != http.StatusUnauthorized || len(lines) != 1 || lines[0].ContextMap()["path"] != path {
			t.Errorf("%s: %d, %v", path, w.Code, lines)
		}
	}
	for range 5 * refusalLines {
		if _, err := ask(h, http.MethodGet, "/v1/models", "s3cret", nil); err != nil {
			t.Fatal(err)
		}
	}
	minutes := time.Now().Unix()/60 - begin + 1
	if n := logs.Len(); n > refusalLines*int(minutes) {
		t.Errorf("%d lines in %d minutes", n, minutes)
	}
	for _, key := range []string{"right", ""} {
		if w, err := ask(h, http.MethodGet, "/healthz", key, nil); err != nil || w.Code != http.StatusOK {
			t.Errorf("%d, %v", w.Code, err)
		}
	}
}
