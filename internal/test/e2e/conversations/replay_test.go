package conversations

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// recorded is the chat request of a recording.
type recorded struct {
	name     string
	messages []any
	tools    []any
}

// notReplayed are recordings of a client that leaves, or with a configuration of Codex.
var notReplayed = map[string]bool{"handshake": true, "use-tool-cut": true, "compaction": true}

const transcripts = "../../../../testdata/transcripts"

func recordings(t *testing.T) []recorded {
	t.Helper()
	files, err := filepath.Glob(transcripts + "/*.jsonl")
	must.OK(t, err)
	var all []recorded
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		if notReplayed[name] {
			continue
		}
		r := recorded{name: name}
		for line := range strings.Lines(e2e.ReadFile(t, file)) {
			if gjson.Get(line, "dir").Str == "to_server" {
				r.add(gjson.Get(line, "message.method").Str, gjson.Get(line, "message.params"))
			}
		}
		all = append(all, r)
	}
	if len(all) < 20 {
		t.Fatalf("%d recordings", len(all))
	}
	return all
}

// add adds the parameters of a message to the app-server.
func (r *recorded) add(method string, params gjson.Result) {
	message := func(role, content string) {
		r.messages = append(r.messages, map[string]any{"role": role, "content": content})
	}
	switch method {
	case "thread/start":
		message("system", params.Get("baseInstructions").Str)
		for _, tool := range params.Get("dynamicTools").Array() {
			r.tools = append(r.tools, map[string]any{"type": "function", "function": map[string]any{
				"name": tool.Get("name").Str, "parameters": json.RawMessage(tool.Get("inputSchema").Raw),
			}})
		}
	case "thread/inject_items":
		for _, item := range params.Get("items").Array() {
			switch item.Get("type").Str {
			case "message":
				message(item.Get("role").Str, item.Get("content.0.text").Str)
			case "function_call":
				r.messages = append(r.messages, map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{
					"id": item.Get("call_id").Str, "type": "function",
					"function": map[string]any{"name": item.Get("name").Str, "arguments": item.Get("arguments").Str},
				}}})
			case "function_call_output":
				r.messages = append(r.messages, map[string]any{
					"role": "tool", "tool_call_id": item.Get("call_id").Str, "content": item.Get("output").Str,
				})
			}
		}
	case "turn/start":
		if text := params.Get("input.0.text").Str; text != "" {
			message("user", text)
		}
	}
}

func (r *recorded) body(stream bool) string {
	more := map[string]any{"messages": r.messages, "stream": stream}
	if len(r.tools) > 0 {
		more["tools"] = r.tools
	}
	if stream {
		more["stream_options"] = map[string]any{"include_usage": true}
	}
	return e2e.ChatBody("", more)
}

// gist is an answer without ids and times.
type gist struct {
	Status int
	Code   string
	Choice apiclient.Choice
	Usage  *apiclient.Usage

	late bool // the error came within the stream, since it took more than two seconds
}

func see(s *e2e.Site, body string, stream bool) gist {
	began := time.Now()
	response, text := s.Post(body, nil)
	if response.StatusCode != http.StatusOK {
		return gist{Status: response.StatusCode, Code: gjson.Get(text, "error.code").Str}
	}
	answer, err := apiclient.Read([]byte(text), apiclient.Chat, stream, 1)
	if err != nil {
		s.T.Error(err)
	}
	got := gist{response.StatusCode, answer.Code, answer.Choices[0], answer.Usage, answer.Code != "" && e2e.IsLate(response, began)}
	for i := range got.Choice.Calls {
		got.Choice.Calls[i].ID = ""
	}
	return got
}

// replayEnv is the variable with a directory of recordings that a process plays as an app-server.
const replayEnv = "E2E_REPLAY"

func replay(dir string) (exitCode int) {
	if os.Args[1] == "debug" { // its catalogue
		fmt.Println(`{"models":[{"slug":"replayed"}]}`)
		return 0
	}
	if os.Args[1] != "app-server" {
		fmt.Fprintln(os.Stderr, "only app-server is played")
		return 1
	}
	recordings, err := fakecodex.Load(dir)
	if err == nil {
		err = fakecodex.Serve(context.Background(), os.Stdin, os.Stdout, fakecodex.Options{Transcripts: recordings})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestReplay asks the same of the real codex and of recordings, and expects the same answers.
func TestReplay(t *testing.T) {
	e2e.WithoutLogin(t) // as the recordings
	program, err := os.Executable()
	must.OK(t, err)
	dir, err := filepath.Abs(transcripts)
	must.OK(t, err)
	live := e2e.NewSite(t, "")
	replay := live.Node()
	live.Load("{\nadmin off\npersist_config off\nauto_https off\n}\n" +
		live.URL + " {\ncodex {\n" + live.AppServer() + "\n" + e2e.Patient + "\n}\n}\n" +
		replay.URL + " {\ncodex {\napp_server " + program + " app-server {\nenv " + replayEnv + " " + dir + "\n}\n" + e2e.Patient + "\n}\n}\n")
	live.WaitReady()
	replay.WaitReady()
	asked := live.Model.Stats().Requests
	for _, r := range recordings(t) {
		t.Run(r.name, func(t *testing.T) {
			for _, stream := range []bool{false, true} {
				body := r.body(stream)
				want, got := see(live.At(t), body, stream), see(replay.At(t), body, stream)
				if (want.late || got.late) && want.Code == got.Code {
					continue
				}
				a, _ := json.Marshal(want)
				b, _ := json.Marshal(got)
				if string(a) != string(b) {
					t.Errorf("streamed %t: the real codex gives\n%s\nthe replay\n%s", stream, a, b)
				}
			}
		})
	}
	if live.Model.Stats().Requests == asked {
		t.Error("the real codex was not asked")
	}
}

func TestMain(m *testing.M) {
	if dir := os.Getenv(replayEnv); dir != "" {
		os.Exit(replay(dir))
	}
	os.Exit(e2e.Main(m))
}

// TestFormsOfResults: results have one form in parked and new threads, for the provider's cache.
func TestFormsOfResults(t *testing.T) { e2e.OverBoth(t, testFormsOfResults) }

func testFormsOfResults(t *testing.T) {
	kept, fresh := pairOfSites(t, "api_key ann-key ann")
	text := func(s string) map[string]any { return map[string]any{"type": "text", "text": s} }
	image := func(detail string) map[string]any {
		url := map[string]any{"url": e2e.Pixel}
		if detail != "" {
			url["detail"] = detail
		}
		return map[string]any{"type": "image_url", "image_url": url}
	}
	for name, content := range map[string]any{
		"a text":                  "found",
		"an empty text":           "",
		"a list of one text":      []any{text("found")},
		"a list of two texts":     []any{text("found"), text("more")},
		"an image":                []any{image("")},
		"an image with a detail":  []any{image("high")},
		"an image of auto detail": []any{image("auto")},
		"a text and an image":     []any{text("found"), image("low")},
	} {
		one := talk{user: "ann", system: "Talk about " + name, messages: []chatMessage{
			{"role": "user", "content": "tool: find {}\nthen\nsay: done"}}}
		message := sayIn(t, kept, &one, false)
		call, _ := message["tool_calls"].([]any)[0].(map[string]any)
		one.messages = append(one.messages, message, chatMessage{"role": "tool", "tool_call_id": call["id"], "content": content})
		var outputs []string
		for _, s := range []*e2e.Site{kept, fresh} {
			if answer := sayIn(t, s, &one, false); answer["content"] != "done" {
				t.Errorf("%s: answered with %v", name, answer)
			}
			all := s.Model.Requests()
			output := gjson.GetBytes(all[len(all)-1].Body, `input.#(type=="function_call_output").output`)
			outputs = append(outputs, output.Raw)
		}
		if len(outputs) != 2 || outputs[0] != outputs[1] {
			t.Errorf("%s: %q", name, outputs)
		}
	}
}
