package gateway

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// TestRecording checks that a recording has all kinds of entries, in the order in which they came.
func TestRecording(t *testing.T) {
	r := recorder.New(nil)
	g := newGateway(newFakeUpstream(t, fakecodex.Options{Default: "text"}), Options{MaxConcurrent: 1, Recorder: r, Record: recorder.Rule{Mode: recorder.All}})
	req := posting("/v1/chat/completions", `{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"Hello"}]}`)
	req.Header.Set("X-Request-Id", "recorded")
	g.Serve(Find("/v1/chat/completions"), httptest.NewRecorder(), req)
	entries := recordingOf(t, r, "recorded")
	seen := make(map[recorder.Dir]int)
	at := recorder.Millis(0)
	for _, e := range entries {
		seen[e.Dir]++
		if e.At < at && e.Dir != recorder.ToClient { // a write has the time of its begin
			t.Errorf("%+v comes before what was recorded before it", e)
		}
		at = e.At
	}
	for _, dir := range []recorder.Dir{recorder.FromClient, recorder.ToServer, recorder.FromServer, recorder.Read, recorder.Parts, recorder.ToClient, recorder.Noted} {
		if seen[dir] == 0 {
			t.Errorf("the recording has no entry %s", dir)
		}
	}
	if entries[0].Dir != recorder.FromClient || entries[len(entries)-1].Dir != recorder.End {
		t.Errorf("the recording begins with %+v and ends with %+v", entries[0], entries[len(entries)-1])
	}
}

// recordingOf waits for the recording of a request.
func recordingOf(t *testing.T, r *recorder.Recorder, id string) []recorder.Entry {
	t.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Millisecond) {
		all := r.List(func(string) bool { return true }).Recordings
		if i := slices.IndexFunc(all, func(rec *recorder.Recording) bool { return rec.ID == id }); i >= 0 {
			entries, err := recorder.Parse(all[i].Text())
			must.OK(t, err)
			return entries
		}
	}
	t.Fatalf("there is no recording of %s", id)
	return nil
}

// TestRedactedRecordingsReplay plays the lines and the body of a redacted recording again: the answer has the
// same shape.
func TestRedactedRecordingsReplay(t *testing.T) {
	files, err := filepath.Glob("../../testdata/transcripts/*.jsonl")
	must.OK(t, err)
	tool := `"name":"localSearch","description":"Search for \"x\"","%s":{"type":"object","properties":{"query":{"type":"string","maxLength":200},"type":{"enum":["note","all"]}},"required":["query"]}`

	const image = `"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="`
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"gpt-5","messages":[{"role":"user","content":[{"type":"text","text":"Who is Ada?"},{"type":"image_url","image_url":{"url":` + image + `}}]}],"tools":[{"type":"function","function":{` + fmt.Sprintf(tool, "parameters") + `}}]}`,
		"/v1/responses":        `{"model":"gpt-5","store":false,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Who is Ada?"}]}],"metadata":{"a_1":"b 2"},"tools":[{"type":"function",` + fmt.Sprintf(tool, "parameters") + `}]}`,
		"/v1/messages":         `{"model":"gpt-5","max_tokens":1000,"messages":[{"role":"user","content":"Who is Ada?"}],"tools":[{` + fmt.Sprintf(tool, "input_schema") + `}]}`,
		"/api/chat":            `{"model":"gpt-5","stream":false,"messages":[{"role":"user","content":"Who is Ada?"}],"tools":[{"type":"function","function":{` + fmt.Sprintf(tool, "parameters") + `}}]}`,
	} {
		for _, mode := range []turn.Mode{turn.ModeJSON, turn.ModeXML} {
			for _, file := range files {
				if !playable.MatchString(filepath.Base(file)) {
					continue
				}
				t.Run(path+" "+string(mode)+" "+filepath.Base(file), func(t *testing.T) {
					t.Parallel()
					recording, err := os.ReadFile(file)
					must.OK(t, err)
					entries, err := recorder.Parse(recording)
					must.OK(t, err)
					first := recordPlayed(t, path, mode, body, entries)
					again := recordPlayed(t, path, mode, string(first[1].Message), first)
					was, is := sentTo(first), sentTo(again)
					at := 0
					for at < min(len(was), len(is)) && was[at] == is[at] {
						at++
					}
					if was != is {
						t.Errorf("at byte %d, the answer was\n%.300s\nnow it is\n%.300s", at, was[max(0, at-100):], is[max(0, at-100):])
					}
				})
			}
		}
	}
}

// recordPlayed returns the recording of a request to an app-server that sends the notifications of entries.
func recordPlayed(t *testing.T, path string, mode turn.Mode, body string, entries []recorder.Entry) []recorder.Entry {
	t.Helper()
	var lines []string
	var threadID, turnID string
	for _, e := range entries {
		if e.Dir != recorder.FromServer || !gjson.GetBytes(e.Message, "params.turnId").Exists() && gjson.GetBytes(e.Message, "method").Str != "turn/completed" {
			continue
		}
		lines = append(lines, string(e.Message))
		threadID = cmp.Or(threadID, gjson.GetBytes(e.Message, "params.threadId").Str)
		turnID = cmp.Or(turnID, gjson.GetBytes(e.Message, "params.turnId").Str)
	}
	r := recorder.New(nil)
	u := newFakeUpstream(t, fakecodex.Options{Turn: func(a fakecodex.Asked) []fakecodex.Step {
		steps := begun(a)
		for _, line := range lines {
			line = strings.ReplaceAll(strings.ReplaceAll(line, `"`+threadID+`"`, `"`+a.Thread+`"`), `"`+turnID+`"`, `"`+a.Turn+`"`)
			steps = append(steps, fakecodex.Step{Message: line})
		}
		return steps
	}})
	g := newGateway(u, Options{MaxConcurrent: 1, Recorder: r, Record: recorder.Rule{Mode: recorder.All}})
	g.opts.Tools.OutputMode, g.opts.Tools.StopAfterTools = mode, turn.StopBurst
	g.opts.StopGrace = patience
	req := posting(path, body)
	req.Header.Set("X-Request-Id", "recorded")
	g.Serve(Find(path), httptest.NewRecorder(), req)
	return recordingOf(t, r, "recorded")
}

// playable matches the recordings whose turns end without the client's doing.
var playable = regexp.MustCompile(`^(?:text\.|multibyte|reasoning|use-tool-(?:one|burst|write)|error|incomplete)`)

var digits = regexp.MustCompile(`[0-9]+`)

// sentTo returns what the client got, without numbers, which may be times.
func sentTo(entries []recorder.Entry) string {
	text := ""
	for _, e := range entries {
		if e.Dir == recorder.ToClient {
			text += string(e.Message) + e.Text
		}
	}
	return digits.ReplaceAllString(text, "0")
}

// TestRecordedHeader: headers with credentials are not recorded, nor that a body was compressed, which it is no more.
func TestRecordedHeader(t *testing.T) {
	header := http.Header{"User-Agent": {"x"}}
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "Cookie", "Set-Cookie", "X-Forwarded-For", "Content-Encoding", "Chatgpt-Account-Id"} {
		header.Set(name, "x")
	}
	if got := fmt.Sprint(recordedHeader(header)); got != "map[User-Agent:x]" {
		t.Error(got)
	}
}

// TestAnswerHeaders checks that each of this server's headers that the package names is in AnswerHeaders, so that
// pages may read it, or belongs to requests.
func TestAnswerHeaders(t *testing.T) {
	files, err := filepath.Glob("*.go")
	must.OK(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		must.OK(t, err)
		for _, match := range regexp.MustCompile(`"(X-(?:Codex|Proxy)-[A-Za-z-]*[a-z])"`).FindAllStringSubmatch(string(source), -1) {
			if !slices.Contains(AnswerHeaders, match[1]) && match[1] != "X-Proxy-Stop-After-Tools" {
				t.Errorf("%s: AnswerHeaders lacks %s", path, match[1])
			}
		}
	}
}
