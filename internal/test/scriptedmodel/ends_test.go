package scriptedmodel

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/sse"
)

// TestCutText checks that all text is sent before the connection breaks.
func TestCutText(t *testing.T) {
	s := start(t)
	a := s.ask(body("chunk=1; say:Grüße; cutoff", nil))
	if a.text() != "Grüße" || a.err != io.ErrUnexpectedEOF {
		t.Errorf("read %q, %v", a.text(), a.err)
	}
	if stats, err := s.Wait(deadline(t), func(now Stats) bool { return now.Finished == 1 }); err != nil || stats.ClosedEarly != 0 {
		t.Errorf("stats %+v, %v", stats, err)
	}
}

// TestHang checks that the stream stays open until the client leaves, and that the
// server notices.
func TestHang(t *testing.T) {
	s := start(t)
	for i, c := range []struct {
		prompt string
		events int // number before the silence
	}{{"hang", 0}, {"say:first; hang", 5}, {"tool:f {}; hang", 4}} {
		ctx, leave := context.WithCancel(deadline(t))
		response := s.post(ctx, body(c.prompt, nil))
		r := sse.NewReader(response.Body, sse.ReaderOptions{})
		for range c.events {
			if _, err := next(t, r); err != nil {
				t.Fatal(err)
			}
		}
		if stats, err := s.Wait(deadline(t), func(now Stats) bool { return now.Open == 1 }); err != nil || stats.ClosedEarly != i {
			t.Errorf("%s: stats %+v, %v", c.prompt, stats, err)
		}
		leave()
		if e, err := next(t, r); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: read %v, %v after leaving", c.prompt, e, err)
		}
		_ = response.Body.Close()
		if err := s.WaitClosed(deadline(t), i+1); err != nil {
			t.Error(err)
		}
	}
	if stats := s.Stats(); stats.Open != 0 || stats.Finished != 0 {
		t.Errorf("stats %+v", stats)
	}
}

// TestForeignInstructions checks that Codex's own prompt is recognised in each
// place, and that other instructions can be refused.
func TestForeignInstructions(t *testing.T) {
	s := start(t)
	s.On(func(r Request) (Script, bool) { return Script{End: ForeignInstructions{}}, !r.LeadsWithOwnPrompt() })
	developer := func(text string) object {
		return object{"type": "message", "role": "developer", "content": []object{{"type": "input_text", "text": text}}}
	}
	own := "You are Codex, " + strings.Repeat("an agent ", 2000)
	user := object{"type": "message", "role": "user", "content": "say:ok"}
	for name, more := range map[string]object{
		"none":      {"input": []object{user}},
		"foreign":   {"input": []object{developer("You are a bird."), user}},
		"too short": {"input": []object{developer("You are Codex, a bird."), user}},
		"behind":    {"input": []object{developer("You are a bird."), developer(own), user}},
		"member":    {"input": []object{developer(own), user}, "instructions": "You are a bird."},
	} {
		response := s.post(deadline(t), body("", more))
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != 400 || strings.TrimSpace(string(text)) != `{"detail":"Instructions are not valid"}` {
			t.Errorf("%s: %s %s %v", name, response.Status, text, err)
		}
	}
	for name, more := range map[string]object{
		"message": {"input": []object{developer(own), developer("You are a bird."), user}},
		"member":  {"input": []object{developer("You are a bird."), user}, "instructions": own},
	} {
		if got := s.prompt("", more).text(); got != "ok" {
			t.Errorf("%s: %q", name, got)
		}
	}
}
