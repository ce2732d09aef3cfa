package appserver

import (
	"testing"
)

// TestHeed checks which lines of Codex's log end the turns that are beginning. Without a
// connection, a line that did would panic.
func TestHeed(t *testing.T) {
	const prefix = "2026-11-24T10:58:01.720459Z  WARN codex_core::session::startup_prewarm: "
	for line, want := range map[string]bool{
		prefix + prewarmFailed + "exceeded retry limit, last status: 429 Too Many Requests": true,
		prefix + prewarmFailed + "unexpected status 503 Service Unavailable: scripted 503":  false,
		prefix + prewarmFailed + "unexpected status 403 Forbidden: last status: 4290":       false,
		"exceeded retry limit, last status: 429 Too Many Requests":                          false,
		"2026-11-24T10:58:01.784443Z  WARN codex_core::client: falling back to HTTP":        false,
	} {
		in := &instance{}
		heeded := func() (panicked bool) {
			defer func() { panicked = recover() != nil }()
			in.heed(line)
			return false
		}()
		if heeded != want {
			t.Errorf("%q: %t", line, heeded)
		}
	}
}
