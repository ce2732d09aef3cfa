package conversations

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// openBlock is a text and an unclosed block.
const openBlock = "Hier: <use_tool>\n<name>writeToFile</name>\n<content>Grüße 你"

// TestToolKilledInBlock checks that the client gets the beginning of a block when codex
// is killed, followed by an error.
func TestToolKilledInBlock(t *testing.T) {
	s := e2e.NewSite(t, "")
	before := toolUsageOf(s)
	q := e2e.Question{Prompt: "chunk=all; say:" + openBlock + "; hang", System: e2e.Taught}
	stream := s.Do(http.MethodPost, "/v1/chat/completions", strings.NewReader(q.Body(true)), nil)
	begun := e2e.ReadUntil(t, stream.Body, "Hier: ")
	if strings.Contains(begun, "use_tool") {
		t.Errorf("the open block is out already: %q", begun)
	}
	e2e.Kill(t, "codex")
	text := begun + s.Read(stream)
	for _, want := range []string{`<use_tool>\n<name>writeToFile</name>\n<content>Grüße 你"`, `"code":"codex_exited"`} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%s is not there once: %s", want, text)
		}
	}
	if !strings.HasSuffix(text, "data: [DONE]\n\n") || strings.Contains(text, `"finish_reason":"`) {
		t.Errorf("how it ends: %s", text)
	}
	waitAborted(s, before, "error")
}

// waitAborted waits until one more block is counted as aborted for this reason.
func waitAborted(s *e2e.Site, before toolUsage, reason string) {
	s.T.Helper()
	e2e.WaitFor(s.T, "a block aborted as "+reason, func() bool {
		now := toolUsageOf(s)
		return now.Buffers.ByReason[reason] == before.Buffers.ByReason[reason]+1 && now.Buffers.Aborted == before.Buffers.Aborted+1
	})
}
