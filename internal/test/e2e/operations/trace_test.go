package operations

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/command"
	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestTraceCommand checks that `caddy codex trace` switches recording on, lists a request to the real Codex, and
// says that its time went to the model.
func TestTraceCommand(t *testing.T) {
	s := e2e.NewUnstarted(t)
	admin := s.WithAdmin(s.Caddyfile("api_key " + e2e.SecretKey))
	trace := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		cmd := command.Trace()
		cmd.SetOut(&out)
		cmd.SetArgs(append(args, "--address", admin.Addr))
		must.OK(t, cmd.Execute())
		return out.String()
	}
	trace("on", "--requests", "1")
	const delay = 700 * time.Millisecond
	headers := e2e.Bearer(e2e.SecretKey)
	headers.Set("X-Request-Id", "traced")
	for range 2 { // the second one is not recorded
		s.Post(e2e.ChatBody("firstdelay="+delay.String()+"; say:PRIVATE", map[string]any{"stream": true}), headers)
	}
	listed := regexp.MustCompile(`(?m)^traced .*/v1/chat/completions .* complete$`)
	e2e.WaitFor(t, "the recording", func() bool { return listed.MatchString(trace()) })
	if list := trace(); len(listed.FindAllString(list, -1)) != 1 {
		t.Errorf("the list is\n%s", list)
	}
	text := trace("traced")
	entries, err := recorder.Parse([]byte(trace("traced", "--json")))
	must.OK(t, err)
	times := make(map[string]time.Duration)
	for _, p := range recorder.NewTimeline(entries).Phases {
		times[p.Name] += time.Duration(p.End - p.Begin)
	}
	if times["model"] < delay*9/10 || times["codex"] == 0 {
		t.Errorf("the times are %v:\n%s", times, text)
	}
	for _, want := range []string{`complete: The client got the whole answer`, `(?m)^model .*█.*ms +\d+ %$`, `a turn was started .*thread:(new|prepared)`, `0 end +complete`} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("the timeline has no %s:\n%s", want, text)
		}
	}
	var timeline recorder.Timeline
	_, document := admin.Get("/codex/trace?id=traced&timeline")
	must.OK(t, json.Unmarshal([]byte(document), &timeline))
	if len(timeline.Phases) < 4 || regexp.MustCompile("PRIVATE|"+e2e.SecretKey).MatchString(text+document) {
		t.Errorf("the timeline is %s", document)
	}
}
