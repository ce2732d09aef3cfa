package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
)

const recorded = `{"at":0,"dir":"from_client","message":{"version":1,"request_id":"req-1","time":"2026-11-30T09:00:00Z","method":"POST","path":"/v1/chat/completions","proto":"HTTP/2.0"}}
{"at":0.5,"dir":"from_client","message":{"model":"gpt-5"}}
{"at":1,"dir":"note","note":"waiting"}
{"at":301,"dir":"note","note":"starting"}
{"at":302,"dir":"to_server","message":{"id":1,"method":"thread/start"}}
{"at":352,"dir":"from_server","message":{"method":"item/completed","params":{"item":{"type":"userMessage"}}}}
{"at":360,"dir":"note","note":"a turn was started again","choice":1,"message":{"with":"\u001b[2Ja \"new\" thread\n\u202e"}}
{"at":902,"dir":"read","note":"closed"}
{"at":1000,"dir":"end","note":"codex_exited"}
`

// admin is the admin API of a Caddy that has one recording. It returns its address, and what it is asked.
func admin(t *testing.T) (address string, asked *[]string) {
	t.Helper()
	asked = new([]string)
	list := recorder.List{
		Recordings: []*recorder.Recording{{ID: "req-1", User: "\x1b[31mann\t", Key: "key-1", Path: "/v1/chat/completions", Code: "codex_exited", Duration: 1, Bytes: 42}},
		Switches:   []recorder.Switch{{User: "bob", Requests: 3}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*asked = append(*asked, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+string(body)))
		switch id := r.URL.Query().Get("id"); id {
		case "":
			_ = json.NewEncoder(w).Encode(list)
		case "req-1":
			_, _ = io.WriteString(w, recorded)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "no such recording")
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), asked
}

func runTrace(args ...string) (output string, err error) {
	var out bytes.Buffer
	cmd := Trace()
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SetArgs(args)
	err = cmd.Execute()
	return out.String(), err
}

// TestTrace checks what the command asks the admin API, and what it writes.
func TestTrace(t *testing.T) {
	address, asked := admin(t)
	file := filepath.Join(t.TempDir(), "a recording")
	if err := os.WriteFile(file, []byte(recorded), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, asked string
		want        []string
	}{
		{"", "GET /codex/trace", []string{`req-1 .* \\x1b\[31mann\\t  key-1  /v1/chat/completions  1s +codex_exited`, `\(recorded\) +until .* bob .* requests: 3 +texts: false`}},
		{"--json", "GET /codex/trace", []string{`^\{"recordings":`}},
		{"req-1", "GET /codex/trace?id=req-1", []string{
			"(?s)^req-1  .*  1s\ncodex_exited: Codex, or the connection to it, ended.",
			`client   █ {67} +500µs   0 %`, `queue    █{21} {47} +300ms  30 %`, `codex    {21}█{4} {43} +50ms   5 %`, `model +█{39} +550ms  55 %`, `finish +█{7} +98ms   9 %`,
			`\n     301ms 0 note        starting \+300ms\n`, `1 note        a turn was started again with:.*\[2Ja .*new.* thread`, `\n     902ms 0 read        no more events: closed \+542ms\n`,
		}},
		{"req-1 --json", "GET /codex/trace?id=req-1", []string{"^" + regexp.QuoteMeta(recorded) + "$"}},
		{file, "", []string{"codex_exited: Codex"}},
		{"on --key k --user u --requests 3 --for 30m --texts", `POST /codex/trace {"key":"k","minutes":30,"requests":3,"texts":true,"user":"u"}`, []string{"recorded.* bob "}},
		{"on", `POST /codex/trace {"key":"","minutes":60,"requests":10,"texts":false,"user":""}`, nil},
		{"off", "DELETE /codex/trace", nil},
	} {
		*asked = nil
		args := strings.Fields(c.args)
		if c.args == file {
			args = []string{file}
		}
		got, err := runTrace(append(args, "--address", address)...)
		if err != nil || strings.Join(*asked, "\n") != c.asked {
			t.Errorf("trace %s asks %q: %v", c.args, *asked, err)
		}
		if strings.ContainsAny(got, "\x1b\u202e") {
			t.Errorf("trace %s obeys the client: %q", c.args, got)
		}
		for _, want := range c.want {
			if !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("trace %s has no %s:\n%s", c.args, want, got)
			}
		}
	}
}

// TestTraceFails checks the errors, which say what is wrong.
func TestTraceFails(t *testing.T) {
	address, _ := admin(t)
	broken, empty := filepath.Join(t.TempDir(), "broken"), filepath.Join(t.TempDir(), "empty")
	if err := errors.Join(os.WriteFile(broken, []byte(`{"dir":"end"}`+"\n"+`{"dir":"\u001b[31m"}`), 0o600), os.WriteFile(empty, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"req-2": "no such recording", broken: "line 2 of the recording: unknown dir \"\\x1b[31m\"", empty: "no recording of a request", "./none.jsonl": `no file "./none.jsonl"`, filepath.Dir(broken): "is a directory", "a b": "accepts at most 1 arg", "on x": "unknown command",
	} {
		if _, err := runTrace(append(strings.Fields(args), "--address", address)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("trace %s: %v, want %s", args, err, want)
		}
	}
}

// TestTraceColors checks that colors change nothing but the colors, and that bars fit any width.
func TestTraceColors(t *testing.T) {
	entries, err := recorder.Parse([]byte(recorded))
	if err != nil {
		t.Fatal(err)
	}
	timeline := recorder.NewTimeline(entries)
	for _, width := range []int{0, 1, 80, 300} {
		var plain, colored bytes.Buffer
		writeTimeline(&plain, timeline, width, false)
		writeTimeline(&colored, timeline, width, true)
		escapes := regexp.MustCompile(`\x1b\[[0-9;]*m`)
		if strings.Contains(plain.String(), "\x1b") || len(escapes.FindAllString(colored.String(), -1)) < 8 || escapes.ReplaceAllString(colored.String(), "") != plain.String() {
			t.Errorf("%d: plain\n%s\nwith colors\n%s", width, plain.String(), colored.String())
		}
	}
	for _, damaged := range []string{"", `{"at":0.000001,"dir":"end"}`, `{"at":1e300,"took":1e300,"dir":"to_client"}`, `{"at":-1e300,"took":5,"dir":"read"}`} {
		entries, err := recorder.Parse([]byte(damaged))
		if err != nil {
			t.Fatal(err)
		}
		writeTimeline(io.Discard, recorder.NewTimeline(entries), 80, true)
	}
}
