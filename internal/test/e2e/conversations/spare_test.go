package conversations

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// spareSite returns a site for two users, and what says what became of its threads.
func spareSite(t *testing.T, more string) (s *e2e.Site, stats func() status.Conversations) {
	s = e2e.NewSite(t, "")
	admin := s.WithAdmin(s.Caddyfile("api_key ann-key ann\napi_key bob-key bob\napp_server " + e2e.CodexBinary + " app-server {\nhome " + s.Home + "\n" + more + "\n}"))
	s.WaitReadyAs(e2e.Bearer("ann-key"))
	return s, func() status.Conversations { return admin.Status().AppServers[0].Conversations }
}

// TestSpareThreads begins conversations with the same settings, of two users, and checks that
// later ones get threads that were started before, in which the model reads the same as in
// others, and nothing of another conversation.
func TestSpareThreads(t *testing.T) { e2e.OverBoth(t, testSpareThreads) }

func testSpareThreads(t *testing.T) {
	s, stats := spareSite(t, "")
	var requests []scriptedmodel.Request
	var talks []talk
	for i := range 6 {
		one := talk{user: []string{"ann", "bob"}[i%2], system: "You are short.", messages: []chatMessage{
			{"role": "user", "content": fmt.Sprintf("the secret of %d", i)}, {"role": "assistant", "content": fmt.Sprintf("is %d", i*i)},
			{"role": "user", "content": fmt.Sprintf("say: hello %d", i)},
		}}
		if i == 5 {
			one.messages = one.messages[2:]
		}
		message := sayIn(t, s, &one, i%2 == 0)
		if message["content"] != fmt.Sprint("hello ", i) {
			t.Errorf("%d was answered with %q", i, message)
		}
		request, _ := s.Model.Last()
		requests, talks = append(requests, request), append(talks, one)
		talks[i].messages = append(talks[i].messages, message, chatMessage{"role": "user", "content": "say: again"})
		if i > 0 {
			e2e.WaitFor(t, "a spare thread", func() bool { return stats().Spare == 1 })
		}
	}
	if got := stats(); got.Prepared != 4 {
		t.Errorf("%d requests got a spare thread, want 4: %+v", got.Prepared, got)
	}
	keys := make(map[string]bool)
	for i, request := range requests {
		keys[request.PromptCacheKey] = true
		want := slices.Clone(spokenTo(requests[0]))
		for j := range want {
			want[j] = strings.NewReplacer("of 0", fmt.Sprint("of ", i), "is 0", fmt.Sprint("is ", i*i), "hello 0", fmt.Sprint("hello ", i)).Replace(want[j])
		}
		if i == 5 {
			want = slices.DeleteFunc(want, func(line string) bool { return strings.Contains(line, "of 5") || strings.Contains(line, "is 25") })
		}
		if got := spokenTo(request); !slices.Equal(got, want) {
			t.Errorf("%d: the model was given\n%s\nwant\n%s", i, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		e2e.CheckNothingOfTheHost(t, request)
	}
	if len(keys) != len(requests) {
		t.Errorf("%d conversations have %d cache keys", len(requests), len(keys))
	}
	for i := range talks {
		if sayIn(t, s, &talks[i], false); lastKey(s) != requests[i].PromptCacheKey {
			t.Errorf("%d did not go on in its thread", i)
		}
	}
}

// TestSpareThreadsOfOthers checks that conversations with other settings do not get a spare
// thread, and that there are none with spares 0.
func TestSpareThreadsOfOthers(t *testing.T) {
	s, stats := spareSite(t, "")
	begin := func(change func(*talk)) {
		t.Helper()
		one := talk{user: "ann", system: "You are short.", messages: []chatMessage{{"role": "user", "content": "say: x"}}}
		change(&one)
		sayIn(t, s, &one, false)
	}
	for range 2 {
		begin(func(*talk) {})
	}
	e2e.WaitFor(t, "a spare thread", func() bool { return stats().Spare == 1 })
	begin(func(one *talk) { one.system = "You are long." })
	begin(func(one *talk) { one.model = "gpt-5.1" })
	begin(func(one *talk) { one.plain = true })
	if got := stats(); got.Prepared != 0 || got.Spare != 1 {
		t.Errorf("others got spare threads: %+v", got)
	}
	s, stats = spareSite(t, "conversations {\nspares 0\n}")
	for range 3 {
		begin(func(*talk) {})
	}
	if got := stats(); got.Prepared != 0 || got.Spare != 0 {
		t.Errorf("there are spare threads: %+v", got)
	}
}

// TestSpareThreadIsGone ends the app-server and the model while a spare thread waits, and
// checks that the next request is answered all the same.
func TestSpareThreadIsGone(t *testing.T) { e2e.OverBoth(t, testSpareThreadIsGone) }

func testSpareThreadIsGone(t *testing.T) {
	s, stats := spareSite(t, "")
	begin := func(n int) {
		t.Helper()
		one := talk{user: "ann", system: "You are short.", messages: []chatMessage{{"role": "user", "content": fmt.Sprint("say: answer ", n)}}}
		if message := sayIn(t, s, &one, true); message["content"] != fmt.Sprint("answer ", n) {
			t.Errorf("%d was answered with %q", n, message)
		}
	}
	wait := func() {
		t.Helper()
		e2e.WaitFor(t, "a spare thread", func() bool { return stats().Spare > 0 })
	}
	begin(0)
	begin(1)
	wait()
	s.Model.CutSockets()
	begin(2)
	wait()
	e2e.Kill(t, "codex")
	e2e.WaitFor(t, "another app-server", func() bool { got := stats(); return got.Spare == 0 && got.Kept == 0 })
	begin(3)
	begin(4)
	if got := stats(); got.Prepared < 1 {
		t.Errorf("no request got a spare thread: %+v", got)
	}
}
