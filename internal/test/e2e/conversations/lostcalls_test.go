package conversations

import (
	"context"
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

// TestToolDisconnectInBlock checks that an unclosed block is counted when its client
// leaves, and that the turn is interrupted.
func TestToolDisconnectInBlock(t *testing.T) {
	s := e2e.NewSite(t, "")
	for _, held := range []string{openBlock, "Hier: " + useTool("localSearch", "a") + "<use_tool>"} {
		before, stats := toolUsageOf(s), s.Model.Stats()
		ctx, leave := context.WithCancel(e2e.Context(t))
		q := e2e.Question{Prompt: "chunk=all; say:" + held + "; hang", System: e2e.Taught}
		response, err := s.Chat(ctx, q.Body(true), nil)
		if err != nil {
			t.Fatal(err)
		}
		e2e.ReadUntil(t, response.Body, "Hier: ")
		leave()
		response.Body.Close()
		if err := s.Model.WaitClosed(e2e.Context(t), stats.ClosedEarly+1); err != nil {
			t.Error("the turn was not interrupted:", err)
		}
		waitAborted(s, before, "disconnect")
	}
}

// waitAborted waits until one more block is counted as aborted for this reason.
func waitAborted(s *e2e.Site, before toolUsage, reason string) {
	s.T.Helper()
	e2e.WaitFor(s.T, "a block aborted as "+reason, func() bool {
		now := toolUsageOf(s)
		return now.Buffers.ByReason[reason] == before.Buffers.ByReason[reason]+1 && now.Buffers.Aborted == before.Buffers.Aborted+1
	})
}
