package e2e

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
)

// TestKeptThreadsAreBounded fills the kept threads of an app-server, and checks by its
// own count that those above the limit are unloaded: the oldest of the user who has the
// most. After their time, all are.
func TestKeptThreadsAreBounded(t *testing.T) {
	s := newSite(t, "api_key ann-key ann\napi_key bob-key bob")
	l := &lab{t: t, home: s.home, model: s.model}
	address, _ := l.listen("unix://" + filepath.Join(t.TempDir(), "codex.sock"))
	limit := func(limits string) {
		s.load(s.caddyfile("api_key ann-key ann\napi_key bob-key bob\napp_server {\nconnect " + address + "\nconversations {\n" + limits + "\n}\n}"))
		s.waitReadyAs(bearer("ann-key"))
	}
	limit("max 3")
	conn, err := l.process(appserver.Config{Connect: address}).Conn(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	loaded := func(n int64) {
		t.Helper()
		var last codexrpc.Diagnostics
		waitFor(t, fmt.Sprintf("%d threads in codex", n), func() bool {
			last, err = conn.Diagnostics(testContext(t))
			return err == nil && last.LiveThreads == n
		})
	}
	begin := func(user string, number int) (one talk, key string) {
		one = talk{user: user, system: fmt.Sprint("Talk ", number), messages: []chatMessage{{"role": "user", "content": "say: hello"}}}
		one.messages = append(one.messages, s.sayIn(t, &one, false), chatMessage{"role": "user", "content": "say: again"})
		return one, s.lastKey()
	}
	goesOn := func(one *talk, key string, want bool) {
		t.Helper()
		if s.sayIn(t, one, false); (s.lastKey() == key) != want {
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
	s.load(s.caddyfile("api_key ann-key ann\napp_server {\nconnect " + address + "\nconversations off\n}"))
	loaded(0)
}

// TestFallbacks checks that requests whose thread is gone are counted, once each, with
// the reason.
func TestFallbacks(t *testing.T) {
	s := newSite(t, "")
	admin := s.withAdmin(s.caddyfile("app_server " + codexBinary + " app-server {\nhome " + s.home + "\nconversations {\nmax 1\n}\n}"))
	s.waitReady()
	fallbacks := func() map[string]int {
		var status struct {
			AppServers []struct {
				Conversations struct{ Fallbacks map[string]int }
			} `json:"app_servers"`
		}
		admin.getJSON("/codex/status", &status)
		return status.AppServers[0].Conversations.Fallbacks
	}
	first, _ := s.calling(t, "ann")
	second := talk{user: "ann", system: "Another.", messages: []chatMessage{{"role": "user", "content": twoCalls}}}
	second.answerResults(s.sayIn(t, &second, false))
	for range 2 {
		s.sayIn(t, &first, false) // its thread is gone
	}
	if got, want := fallbacks(), map[string]int{"evicted": 1}; !maps.Equal(got, want) {
		t.Errorf("the fallbacks are %v, want %v", got, want)
	}
	first, _ = s.calling(t, "ann")
	old := codexes(0)
	kill(t, "codex")
	waitFor(t, "the old codex to end", allGone(old))
	s.waitReady()
	s.sayIn(t, &first, false)
	if got, want := fallbacks(), map[string]int{"evicted": 1, "process_ended": 1}; !maps.Equal(got, want) {
		t.Errorf("the fallbacks are %v, want %v", got, want)
	}
	if _, text := admin.get("/metrics"); !strings.Contains(text, `reason="process_ended"} 1`) {
		t.Error("the metrics do not have the reason")
	}
}
