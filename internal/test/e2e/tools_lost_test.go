package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// openBlock is a text and an unclosed block.
const openBlock = "Hier: <use_tool>\n<name>writeToFile</name>\n<content>Grüße 你"

// TestToolKilledInBlock checks that the client gets the beginning of a block when codex
// is killed, followed by an error.
func TestToolKilledInBlock(t *testing.T) {
	s := newSite(t, "")
	before := s.toolUsage()
	q := question{prompt: "chunk=all; say:" + openBlock + "; hang", system: taught}
	stream := s.do(http.MethodPost, "/v1/chat/completions", strings.NewReader(q.body(true)), nil)
	begun := readUntil(t, stream.Body, "Hier: ")
	if strings.Contains(begun, "use_tool") {
		t.Errorf("the open block is out already: %q", begun)
	}
	kill(t, "codex")
	text := begun + s.read(stream)
	for _, want := range []string{`<use_tool>\n<name>writeToFile</name>\n<content>Grüße 你"`, `"code":"codex_exited"`} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%s is not there once: %s", want, text)
		}
	}
	if !strings.HasSuffix(text, "data: [DONE]\n\n") || strings.Contains(text, `"finish_reason":"`) {
		t.Errorf("how it ends: %s", text)
	}
	s.waitAborted(before, "error")
}

// TestToolDisconnectInBlock checks that an unclosed block is counted when its client
// leaves, and that the turn is interrupted.
func TestToolDisconnectInBlock(t *testing.T) {
	s := newSite(t, "")
	for _, held := range []string{openBlock, "Hier: " + useTool("localSearch", "a") + "<use_tool>"} {
		before, stats := s.toolUsage(), s.model.Stats()
		ctx, leave := context.WithCancel(testContext(t))
		q := question{prompt: "chunk=all; say:" + held + "; hang", system: taught}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(q.body(true)))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		readUntil(t, response.Body, "Hier: ")
		leave()
		response.Body.Close()
		if err := s.model.WaitClosed(testContext(t), stats.ClosedEarly+1); err != nil {
			t.Error("the turn was not interrupted:", err)
		}
		s.waitAborted(before, "disconnect")
	}
}

// waitAborted waits until one more block is counted as aborted for this reason.
func (s *site) waitAborted(before toolUsage, reason string) {
	s.t.Helper()
	waitFor(s.t, "a block aborted as "+reason, func() bool {
		now := s.toolUsage()
		return now.Buffers.ByReason[reason] == before.Buffers.ByReason[reason]+1 && now.Buffers.Aborted == before.Buffers.Aborted+1
	})
}
