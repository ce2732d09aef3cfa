package conversations

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestKeptThreadsAreBounded fills the kept threads of an app-server, and checks by its
// own count that those above the limit are unloaded: the oldest of the user who has the
// most. After their time, all are.
func TestKeptThreadsAreBounded(t *testing.T) {
	s := e2e.NewSite(t, "api_key ann-key ann\napi_key bob-key bob")
	address, _ := s.Listen("unix://" + filepath.Join(t.TempDir(), "codex.sock"))
	limit := func(limits string) {
		s.Load(s.Caddyfile("api_key ann-key ann\napi_key bob-key bob\napp_server {\nconnect " + address + "\nconversations {\nspares 0\n" + limits + "\n}\n}"))
		s.WaitReadyAs(e2e.Bearer("ann-key"))
	}
	limit("max 3")
	conn, err := s.Process(appserver.Config{Connect: address}).Conn(e2e.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	loaded := func(n int64) {
		t.Helper()
		var last codexrpc.Diagnostics
		e2e.WaitFor(t, fmt.Sprintf("%d threads in codex", n), func() bool {
			last, err = conn.Diagnostics(e2e.Context(t))
			return err == nil && last.LiveThreads == n
		})
	}
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
		loaded(int64(min(3, i+2)))
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
	s.Load(s.Caddyfile("api_key ann-key ann\napp_server {\nconnect " + address + "\nconversations off\n}"))
	loaded(0)
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
