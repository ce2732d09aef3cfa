package scriptedmodel

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

func TestHTTPErrors(t *testing.T) {
	s := start(t, Options{})
	codes := map[string]int{
		"invalid_request": 400, "invalid_api_key": 401, "permission_denied": 403, "model_not_found": 404,
		"rate_limit_exceeded": 429, "server_error": 500, "service_unavailable": 503,
	}
	for code, status := range codes {
		e, header := s.refused(body("say:never; http:"+strconv.Itoa(status), nil), status)
		if e.at("error", "code") != code || e.at("error", "message") != "scripted "+strconv.Itoa(status) {
			t.Errorf("status %d: %v", status, e)
		}
		if got := header.Get("Retry-After"); got != "" {
			t.Errorf("status %d: Retry-After %q", status, got)
		}
	}
	if _, header := s.refused(body("http:429 7", nil), 429); header.Get("Retry-After") != "7" {
		t.Errorf("Retry-After is %q", header.Get("Retry-After"))
	}
	if stats := s.Stats(); stats.Finished != 0 || stats.Requests != len(codes)+1 {
		t.Errorf("stats %+v", stats)
	}
}

func TestUsageLimit(t *testing.T) {
	s := start(t, Options{})
	before := time.Now()
	e, header := s.refused(body("say:never; limit:3600 pro", nil), 429)
	at, err := strconv.ParseInt(header.Get("X-Codex-Primary-Reset-At"), 10, 64)
	if in := time.Unix(at, 0).Sub(before); err != nil || in < 3599*time.Second || in > 3700*time.Second {
		t.Errorf("it resets in %v (%v)", in, err)
	}
	if e.at("error", "type") != "usage_limit_reached" || e.at("error", "plan_type") != "pro" || e.at("error", "resets_at") != float64(at) {
		t.Errorf("the body is %v", e)
	}
	if header.Get("X-Codex-Primary-Used-Percent") != "100" || header.Get("X-Codex-Secondary-Used-Percent") != "42" {
		t.Errorf("the headers are %v", header)
	}
	e, header = s.refused(body("limit:", nil), 429)
	if e.at("error", "plan_type") != "plus" || e.at("error", "resets_at") != nil || header.Get("X-Codex-Primary-Reset-At") != "" {
		t.Errorf("without a time: %v %v", e, header)
	}
}

func TestFailed(t *testing.T) {
	s := start(t, Options{})
	for _, code := range []string{"rate_limit_exceeded", "insufficient_quota", "context_length_exceeded", "server_error", "odd"} {
		last := s.prompt("fail:"+code, nil).last()
		if last.at("response", "error", "code") != code || last.at("response", "error", "message") == "" {
			t.Errorf("%s: %v", code, last.at("response", "error"))
		}
		if last.at("response", "status") != "failed" {
			t.Errorf("%s: status %v", code, last.at("response", "status"))
		}
	}
	last := s.prompt("fail:server_error My own; words", nil).last()
	if got := last.at("response", "error", "message"); got != "My own; words" {
		t.Errorf("the message is %q", got)
	}
}

func TestIncomplete(t *testing.T) {
	s := start(t, Options{})
	for _, reason := range []string{"max_output_tokens", "content_filter"} {
		a := s.prompt("say:first; say:second; incomplete:"+reason, nil)
		if got := a.last().at("response", "incomplete_details", "reason"); got != reason {
			t.Errorf("the reason is %v, want %s", got, reason)
		}
		var statuses []string
		for item := range doneItems(a) {
			statuses = append(statuses, item["status"].(string))
		}
		if got := strings.Join(statuses, " "); got != "completed incomplete" {
			t.Errorf("the items are %s", got)
		}
	}
}

// TestCutText checks that all text is sent before the connection breaks.
func TestCutText(t *testing.T) {
	s := start(t, Options{Chunk: 1})
	a := s.ask(body("say:Grüße; cutoff", nil))
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
	s := start(t, Options{})
	for i, c := range []struct {
		prompt string
		events int // number before the silence
	}{{"hang", 0}, {"say:first; hang", 5}, {"tool:f {}; hang", 4}} {
		ctx, leave := context.WithCancel(deadline(t))
		response := s.post(ctx, body(c.prompt, nil))
		r := apiclient.NewReader(response.Body)
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

// TestClosedWhileSending checks that the server notices a client that leaves in the
// middle of a long answer, during a pause or not.
func TestClosedWhileSending(t *testing.T) {
	s := start(t, Options{Chunk: 1})
	long := strings.Repeat("x", 1<<20)
	for i, prompt := range []string{"say:" + long, "delay=1m; say:" + long, "firstdelay=1m; say:" + long} {
		ctx, leave := context.WithCancel(deadline(t))
		response := s.post(ctx, body(prompt, nil))
		if _, err := next(t, apiclient.NewReader(response.Body)); err != nil {
			t.Fatal(err)
		}
		leave()
		_ = response.Body.Close()
		if err := s.WaitClosed(deadline(t), i+1); err != nil {
			t.Error(err)
		}
	}
}

// TestServerClose checks that Close breaks hanging streams and later ones.
func TestServerClose(t *testing.T) {
	s := start(t, Options{})
	response := s.post(deadline(t), body("hang", nil))
	defer response.Body.Close()
	s.Close()
	if text, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("the stream ended well after %q", text)
	}
	if a := s.ask(body("say:x", nil)); a.err != io.ErrUnexpectedEOF {
		t.Errorf("a later stream ended with %v", a.err)
	}
	stats, err := s.Wait(deadline(t), func(now Stats) bool { return now.Open == 0 })
	if err != nil || stats.ClosedEarly != 0 || stats.Finished != 0 {
		t.Errorf("stats %+v, %v", stats, err)
	}
}

// TestWaitGivesUp checks that a wait ends with its context.
func TestWaitGivesUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if err := New(Options{}).WaitClosed(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting ended with %v", err)
	}
}

// TestForeignInstructions checks that Codex's own prompt is recognised in each
// place, and that other instructions can be refused.
func TestForeignInstructions(t *testing.T) {
	s := start(t, Options{})
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
