package replay

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestDoubt records changed requests of testdata/recordings, and replays what was recorded: there is no difference, or
// the replay says why a difference says nothing. Then it changes what was recorded: only where a difference says
// something it is one.
func TestDoubt(t *testing.T) {
	const (
		chat, messages = "chat-stream-resumed.jsonl", "upstream-error-stream.jsonl"
		limited        = "max_tokens or a stop sequence may have ended the turn, and masked words have other tokens and endings"
		refused        = "its request was refused, and what is wrong with it is masked"
		mode           = "its header X-Proxy-Output-Mode was refused, and the value of that is masked"
		machine        = "an address or a path in Codex's message about the failure is masked"
	)
	with := func(member string) func(*script) {
		return func(s *script) { s.body = append([]byte(`{`+member+`,`), s.body[1:]...) }
	}
	body := func(path, body string) func(*script) {
		return func(s *script) { s.head.Path, s.body, s.actions = path, []byte(body), nil }
	}
	picture := func(url string) func(*script) {
		return body("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"`+url+`"}}]}]}`)
	}
	header := func(name, value string, change func(*script)) func(*script) {
		return func(s *script) {
			s.head.Header[name] = value
			change(s)
		}
	}
	says := func(message string) func(*script) {
		return func(s *script) {
			for i := range s.actions {
				s.actions[i].line = strings.ReplaceAll(s.actions[i].line, "failure of", message)
			}
		}
	}
	same := func(*script) {}
	form := "--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\na cat\r\n--b--\r\n"
	for name, test := range map[string]struct {
		file   string
		change func(*script)
		texts  bool
		answer string // is in what was recorded
		doubt  string
	}{
		"the same":                     {chat, same, false, "xxxx", ""},
		"a limit that ends nothing":    {chat, with(`"max_tokens":5000`), false, "xxxx", ""},
		"calls, and a stop sequence":   {"chat-stream-calls.jsonl", with(`"stop":["."]`), false, `"finish_reason":"xxxx_xxxxx"`, ""},
		"a limit, with texts":          {chat, with(`"max_tokens":3`), true, `"finish_reason":"length"`, ""},
		"a limit of tokens":            {chat, with(`"max_tokens":3`), false, `"finish_reason":"xxxxxx"`, limited},
		"a limit of Messages":          {messages, with(`"stop_sequences":["sim"]`), false, `"stop_reason":"xxxx_xxxxxxxx"`, limited},
		"a part of a word that stops":  {chat, with(`"stop":["im"]`), false, "xxxx", limited},
		"a URL without fetching":       {chat, picture("https://example.com/a.png"), false, `"status":400`, refused},
		"no UTF-8":                     {chat, body("/v1/chat/completions", `{"model":"m","messages":"`+"\xff"+`"}`), false, `"status":400`, refused},
		"a form":                       {chat, body("/v1/images/edits", form), true, "image", ""},
		"no output mode":               {chat, header("X-Proxy-Output-Mode", "bogus", same), true, "bogus", mode},
		"a client of Anthropic":        {chat, header("Anthropic-Version", "2023-06-01", body("/v1/chat/completions", `{`)), true, `{"type":"error"`, ""},
		"a failure":                    {messages, says("failure of"), true, "failure of", ""},
		"a failure with an address":    {messages, says("failure of ben@example.com at"), true, "failure of", machine},
		"the address is masked anyway": {messages, says("failure of ben@example.com at"), false, "xxxxxxx xx", ""},
	} {
		t.Run(name, func(t *testing.T) {
			transcripts, err := fakecodex.Load(filepath.Join("..", "..", "..", "testdata", "transcripts"))
			must.OK(t, err)
			entries := recordAgain(t, transcripts, test.file, test.texts, test.change)
			answer := answerIn(entries)
			if whole := answer.status + answer.text; !strings.Contains(whole, test.answer) {
				t.Fatalf("the answer has no %s: %s", test.answer, whole)
			}
			difference, err := Run(t, entries, transcripts)
			want := fmt.Sprintf("%v: %s", ErrUnjudged, test.doubt)
			if difference != "" || err != nil && err.Error() != want {
				t.Errorf("replayed: %s, %v; want no difference, or %s", difference, err, want)
			}
			last := slices.IndexFunc(entries, func(e recorder.Entry) bool { return e.Text != "" && e.Dir == recorder.ToClient })
			entries[last].Text += "!"
			switch difference, err = Run(t, entries, transcripts); {
			case test.doubt == "" && (err != nil || difference == ""):
				t.Errorf("changed: %s, %v; want a difference", difference, err)
			case test.doubt != "" && (err == nil || err.Error() != want):
				t.Errorf("changed: %s, %v; want %s", difference, err, want)
			}
		})
	}
}

// recordAgain returns the recording of the replay of a changed recording.
func recordAgain(t *testing.T, transcripts *fakecodex.Transcripts, file string, texts bool, change func(*script)) (made []recorder.Entry) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "recordings", file))
	must.OK(t, err)
	entries, err := Load(text)
	must.OK(t, err)
	synctest.Test(t, func(t *testing.T) {
		s, err := read(entries)
		must.OK(t, err)
		change(s)
		s.head.Texts = texts
		time.Sleep(time.Until(s.head.Time))
		p := newPlayer(s, transcripts)
		defer p.stop()
		synctest.Wait()
		var difference string
		made, difference, err = s.serve(p)
		must.OK(t, err)
		if difference != "" {
			t.Fatal(difference)
		}
	})
	return made
}
