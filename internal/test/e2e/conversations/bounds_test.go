package conversations

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestKeptThreadsAreBounded fills the kept threads of an app-server, and checks by its
// own count that those above the limit are unloaded: the oldest of the user who has the
// most. After their time, all are.
func TestKeptThreadsAreBounded(t *testing.T) {
	s, codex := e2e.NewUnstarted(t), newLoggedCodex(t)
	options := func(limits string) string {
		return "api_key ann-key ann\napi_key bob-key bob\n" + codex.appServer(s, "conversations {\nspares 0\n"+limits+"\n}")
	}
	limit := func(limits string) {
		s.Load(s.Caddyfile(options(limits)))
		s.WaitReadyAs(e2e.Bearer("ann-key"))
	}
	s.Serve(options("max 3"))
	s.WaitReadyAs(e2e.Bearer("ann-key"))
	loaded := codex.waitThreads
	begin := func(user string, number int) (one talk, key string) {
		one = talk{user: user, system: fmt.Sprint("Talk ", number), messages: []chatMessage{{"role": "user", "content": "say: hello"}}}
		one.messages = append(one.messages, sayIn(t, s, &one, false), chatMessage{"role": "user", "content": "say: again"})
		return one, lastKey(s)
	}
	goesOn := func(one *talk, key string, want bool) {
		t.Helper()
		if sayIn(t, s, one, false); (lastKey(s) == key) != want {
			t.Errorf("%s of %s went on: %t", one.system, one.user, !want)
		}
	}
	bobs, bobsKey := begin("bob", 0)
	loaded(1)
	var talks []talk
	var keys []string
	for i := range 5 {
		one, key := begin("ann", i)
		talks, keys = append(talks, one), append(keys, key)
		loaded(min(3, int64(i)+2))
	}
	goesOn(&bobs, bobsKey, true)      // though it was the oldest
	goesOn(&talks[4], keys[4], true)  // the newest
	goesOn(&talks[0], keys[0], false) // let go of
	limit("max 1\nidle 1s")
	goesOn(&talks[2], keys[2], false)
	loaded(0)
	limit("max 3")
	begin("ann", 9)
	loaded(1)
	s.Load(s.Caddyfile("api_key ann-key ann\n" + codex.appServer(s, "conversations off")))
	loaded(0)
}

// loggedCodex is a codex whose output is also in a file. The file has what it answers to the probes,
// which come every two seconds.
type loggedCodex struct {
	t            *testing.T
	program, log string
}

func newLoggedCodex(t *testing.T) *loggedCodex {
	t.Helper()
	c := &loggedCodex{t: t, program: filepath.Join(t.TempDir(), "codex"), log: filepath.Join(t.TempDir(), "log")}
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = app-server ] || exec %[1]s \"$@\"\n%[1]s \"$@\" | tee -a %[2]s\n", e2e.CodexBinary, c.log)
	e2e.WriteFile(t, c.program, script)
	if err := os.Chmod(c.program, 0o700); err != nil {
		t.Fatal(err)
	}
	return c
}

// appServer returns the app_server block with the codex and these options.
func (c *loggedCodex) appServer(s *e2e.Site, options string) string {
	return fmt.Sprintf("app_server %s app-server {\nhome %s\n%s\n}", c.program, s.Home, options)
}

// threadCounts returns the number of threads in codex at each probe so far.
func (c *loggedCodex) threadCounts() (counts []int64) {
	output, err := os.ReadFile(c.log)
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(output)) {
		if count := gjson.Get(line, `result.gauges.#(name=="core.threads.live").value`); count.Exists() {
			counts = append(counts, count.Int())
		}
	}
	return counts
}

// waitThreads waits until codex has n threads.
func (c *loggedCodex) waitThreads(n int64) {
	c.t.Helper()
	before := len(c.threadCounts())
	e2e.WaitFor(c.t, fmt.Sprintf("%d threads in codex", n), func() bool {
		return slices.Contains(c.threadCounts()[before:], n)
	})
}

// TestFallbacks checks that requests whose thread is gone are counted, once each, with
// the reason.
func TestFallbacks(t *testing.T) {
	s := e2e.NewSite(t, "")
	admin := s.WithAdmin(s.Caddyfile("app_server " + e2e.CodexBinary + " app-server {\nhome " + s.Home + "\nconversations {\nmax 1\n}\n}"))
	s.WaitReady()
	fallbacks := func() map[string]int {
		var status struct {
			AppServers []struct {
				Conversations struct{ Fallbacks map[string]int }
			} `json:"app_servers"`
		}
		admin.GetJSON("/codex/status", &status)
		return status.AppServers[0].Conversations.Fallbacks
	}
	first, _ := calling(t, s, "ann")
	second := talk{user: "ann", system: "Another.", messages: []chatMessage{{"role": "user", "content": twoCalls}}}
	second.answerResults(sayIn(t, s, &second, false))
	sayIn(t, s, &second, false) // which waits until its thread is kept
	for range 2 {
		sayIn(t, s, &first, false) // its thread is gone
	}
	if got, want := fallbacks(), map[string]int{"evicted": 1}; !maps.Equal(got, want) {
		t.Errorf("the fallbacks are %v, want %v", got, want)
	}
	first, _ = calling(t, s, "ann")
	e2e.WaitFor(t, "the thread to be kept", func() bool { return admin.Status().AppServers[0].Conversations.Parked == 1 })
	old := e2e.Codexes(0)
	e2e.Kill(t, "codex")
	e2e.WaitFor(t, "the old codex to end", e2e.AllGone(old))
	s.WaitReady()
	sayIn(t, s, &first, false)
	if got, want := fallbacks(), map[string]int{"evicted": 1, "process_ended": 1}; !maps.Equal(got, want) {
		t.Errorf("the fallbacks are %v, want %v", got, want)
	}
	if _, text := admin.Get("/metrics"); !strings.Contains(text, `reason="process_ended"} 1`) {
		t.Error("the metrics do not have the reason")
	}
}
