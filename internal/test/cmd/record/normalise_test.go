package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
)

// entriesOf returns entries for lines that begin with > (to the server) or <.
func entriesOf(lines string) []recorder.Entry {
	var entries []recorder.Entry
	for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
		dir := recorder.FromServer
		if strings.HasPrefix(line, ">") {
			dir = recorder.ToServer
		}
		entries = append(entries, recorder.Entry{Dir: dir, Message: []byte(strings.TrimSpace(line[1:]))})
	}
	return entries
}

func linesOf(text []byte) string {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		line = strings.Replace(line, `{"dir":"to_server","message":`, "> ", 1)
		line = strings.Replace(line, `{"dir":"from_server","message":`, "< ", 1)
		lines = append(lines, strings.TrimSuffix(line, "}"))
	}
	return strings.Join(lines, "\n")
}

func TestNormalise(t *testing.T) {
	a := &appServer{names: map[string]string{
		"/run/home": "/home/user/.codex", "/run/home/workspace": "/workspace", "http://127.0.0.1:4711/v1": "http://127.0.0.1:1/v1",
	}}
	const uuid = "01a1fd37-9b4a-7711-a5b7-52fbdb4ffaa"
	got, err := a.normalise(entriesOf(`
> {"id":17,"method":"initialize","params":{"clientInfo":{"name":"<me> & you"}}}
< {"id":17,"result":{"userAgent":"me/0.169.0 (Machine 1.2; x86_64) term","codexHome":"/run/home"}}
< {"method":"configWarning","params":{"summary":"of the machine"}}
> {"id":18,"method":"thread/start","params":{"cwd":"/run/home/workspace"}}
< {"id":18,"result":{"thread":{"id":"` + uuid + `a","sessionId":"` + uuid + `a","createdAt":1795249642,"updatedAt":null},"cwd":"/run/home/workspace"}}
< {"method":"turn/started","params":{"threadId":"` + uuid + `a","turn":{"id":"` + uuid + `b","rootTurnId":"` + uuid + `b","durationMs":12}},"emittedAtMs":1795249642331}
< {"method":"item/started","params":{"item":{"type":"userMessage","id":"` + uuid + `c","text":"msg_1 stays in texts"},"turnId":"` + uuid + `b"}}
< {"method":"rawResponseItem/completed","params":{"item":{"id":"fc_7_0","call_id":"call_7_0","arguments":"{\"a\": 1.50}"},"turnId":"auto-compact-0"}}
< {"method":"rawResponseItem/completed","params":{"item":{"id":"fc_7_1","call_id":"tool_0_0","create_time":1795249642.5}}}
< {"id":41,"method":"item/tool/call","params":{"callId":"call_7_0"}}
> {"id":41,"result":{"n":1e3,"none":null,"yes":true,"list":[1,"two",{}]}}
< {"method":"error","params":{"error":{"message":"unexpected status 404: url: http://127.0.0.1:4711/v1/responses"}}}
`))
	want := strings.TrimSpace(`
> {"id":1,"method":"initialize","params":{"clientInfo":{"name":"<me> & you"}}}
< {"id":1,"result":{"userAgent":"me/0.169.0 (recorded)","codexHome":"/home/user/.codex"}}
> {"id":2,"method":"thread/start","params":{"cwd":"/workspace"}}
< {"id":2,"result":{"thread":{"id":"thread-1","sessionId":"thread-1","createdAt":0,"updatedAt":null},"cwd":"/workspace"}}
< {"method":"turn/started","params":{"threadId":"thread-1","turn":{"id":"turn-1","rootTurnId":"turn-1","durationMs":0}},"emittedAtMs":0}
< {"method":"item/started","params":{"item":{"type":"userMessage","id":"item-1","text":"msg_1 stays in texts"},"turnId":"turn-1"}}
< {"method":"rawResponseItem/completed","params":{"item":{"id":"fc-1","call_id":"call-1","arguments":"{\"a\": 1.50}"},"turnId":"auto-compact-0"}}
< {"method":"rawResponseItem/completed","params":{"item":{"id":"fc-2","call_id":"tool_0_0","create_time":0}}}
< {"id":0,"method":"item/tool/call","params":{"callId":"call-1"}}
> {"id":0,"result":{"n":1e3,"none":null,"yes":true,"list":[1,"two",{}]}}
< {"method":"error","params":{"error":{"message":"unexpected status 404: url: http://127.0.0.1:1/v1/responses"}}}
`)
	if lines := linesOf(got); err != nil || lines != want {
		t.Errorf("got (%v)\n%s\nwant\n%s", err, lines, want)
	}
}

// TestOneOrder checks that a recording does not depend on the order of the app-server's tasks.
func TestOneOrder(t *testing.T) {
	const (
		ask       = `> {"id":1,"method":"turn/start"}`
		answer    = `< {"id":1,"result":{}}`
		started   = `< {"method":"turn/started"}`
		response  = `< {"method":"rawResponse/completed"}`
		usage     = `< {"method":"thread/tokenUsage/updated"}`
		interrupt = `> {"id":2,"method":"turn/interrupt"}`
	)
	raw := func(n int) string {
		return fmt.Sprintf(`< {"method":"rawResponseItem/completed","params":{"item":{"type":"function_call","call_id":"call-%d"},"turnId":"turn-1"}}`, n)
	}
	item := func(n int) string {
		return fmt.Sprintf(`< {"method":"item/started","params":{"item":{"type":"dynamicToolCall","id":"call-%d"}}}`, n)
	}
	call := func(n int) string {
		return fmt.Sprintf(`< {"id":%d,"method":"item/tool/call","params":{"callId":"call-%d"}}`, n, n)
	}
	reply := func(n int) string { return fmt.Sprintf(`> {"id":%d,"result":{}}`, n) }
	done := func(n int) string {
		return fmt.Sprintf(`< {"method":"item/completed","params":{"item":{"type":"dynamicToolCall","id":"call-%d"}}}`, n)
	}
	output := func(n int) string {
		return fmt.Sprintf(`< {"method":"rawResponseItem/completed","params":{"item":{"type":"function_call_output","call_id":"call-%d"},"turnId":"turn-1"}}`, n)
	}
	answered := []string{
		ask, started, answer, raw(1), item(1), call(1), raw(2), item(2), call(2), response,
		reply(1), reply(2), done(1), done(2), output(1), output(2), usage, response, usage,
	}
	left := []string{ask, started, answer, raw(1), item(1), call(1), response, interrupt, done(1), output(1), usage}
	for name, test := range map[string]struct{ got, want []string }{
		"as it stands": {answered, answered},
		"answers in the response": {[]string{
			ask, answer, started, raw(1), item(1), call(1), reply(1), done(1), raw(2), item(2), call(2), reply(2), done(2), response,
			output(1), output(2), usage, response, usage,
		}, answered},
		"calls behind it": {[]string{
			ask, started, raw(1), answer, raw(2), response, item(1), item(2), call(1), reply(1), call(2), output(1), reply(2), done(1), done(2), output(2), usage, response, usage,
		}, answered},
		"calls of no item":  {[]string{ask, answer, started, call(1), item(2)}, []string{ask, started, answer, call(1), item(2)}},
		"left alone":        {[]string{ask, answer, started, raw(1), response, item(1), call(1), interrupt, done(1), output(1), usage}, left},
		"no turn":           {[]string{ask, answer}, []string{ask, answer}},
		"no answer":         {[]string{ask, started}, []string{ask, started}},
		"before the answer": {[]string{ask, raw(1), started, answer}, []string{ask, raw(1), started, answer}},
	} {
		var got []string
		for _, e := range inOrder(entriesOf(strings.Join(test.got, "\n"))) {
			prefix := "< "
			if e.Dir == recorder.ToServer {
				prefix = "> "
			}
			got = append(got, prefix+string(e.Message))
		}
		if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
	}
}
