package fakecodex

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEveryRecordingReplays checks that the real client gets what was recorded.
func TestEveryRecordingReplays(t *testing.T) {
	log := new(bytes.Buffer) // its lines are read after the connection has ended
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := connect(t, Options{}, func() *slog.Logger { return logger })
	for _, turn := range transcripts(t).turns {
		t.Run(turn.name, func(t *testing.T) { replays(t, c, turn) })
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(log.String()) {
		if !unused.MatchString(line) {
			t.Errorf("the client logged %s", line)
		}
	}
}

// replays checks that a client gets a turn as it was recorded.
func replays(t *testing.T, c *codexrpc.Conn, turn *turn) {
	t.Helper()
	thread := begin(t, c, turn)
	if expects(turn.steps) {
		// It may be early: the turn handles it where the recording has one.
		if err := thread.Interrupt(patient(t)); err != nil {
			t.Error(err)
		}
	}
	got, want := take(t, thread), fromRecording(turn)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	released := make(chan struct{})
	thread.Close(func() { close(released) })
	<-released
}

// TestRecordingsOfRequestsReplay checks that recordings of requests are played, too. Only turns with an end are.
func TestRecordingsOfRequestsReplay(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "testdata", "recordings")
	all, err := Load(dir)
	must.OK(t, err)
	paths, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	must.OK(t, err)
	loaded, played := len(all.turns), 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		must.OK(t, err)
		one := &Transcripts{answers: maps.Clone(transcripts(t).answers)} // of the handshake
		must.OK(t, one.add(filepath.Base(path), text))
		loaded -= len(one.turns)
		c := connect(t, Options{Transcripts: one}, nil)
		for _, turn := range one.turns {
			if turn.steps[len(turn.steps)-1].kind == sendEnd && one.find(turn.input, turn.history, "") == turn {
				played++
				t.Run(turn.name, func(t *testing.T) { replays(t, c, turn) })
			}
		}
	}
	if loaded != 0 || played < 10 {
		t.Errorf("%d turns were played, %d more are in the directory than in its files", played, loaded)
	}
}

// unused matches the log's lines of the recorded notifications that the client does not need.
var unused = regexp.MustCompile(`kind=notification method=thread/compacted$`)

// TestRecordingsAreComplete checks that the recordings have what tests need.
func TestRecordingsAreComplete(t *testing.T) {
	for name, wanted := range map[string]func(heardTurn) bool{
		"text":                   func(h heardTurn) bool { return h.status == "completed" && h.text != "" && h.code == "" },
		"multibyte":              func(h heardTurn) bool { return strings.Contains(h.text, "你好 👋🏽") },
		"reasoning":              func(h heardTurn) bool { return h.reasoning != "" && h.text != "" },
		"tool-one-interrupted":   func(h heardTurn) bool { return len(h.calls) == 1 && h.status == "interrupted" },
		"tool-burst-interrupted": func(h heardTurn) bool { return len(h.calls) == 3 && h.status == "interrupted" },
		"tool-burst-answered":    func(h heardTurn) bool { return len(h.calls) == 3 && h.status == "completed" && h.text != "" },
		"text-then-tool":         func(h heardTurn) bool { return len(h.calls) == 1 && h.text != "" },
		"unknown-tool":           func(h heardTurn) bool { return len(h.calls) == 1 && h.status == "completed" },
		"use-tool-one":           func(h heardTurn) bool { return strings.Count(h.text, "</use_tool>") == 1 },
		"use-tool-burst":         func(h heardTurn) bool { return strings.Count(h.text, "</use_tool>") == 3 },
		"use-tool-cut": func(h heardTurn) bool {
			return strings.Count(h.text, "<use_tool>") == 2 && strings.Count(h.text, "</use_tool>") == 1
		},
		"use-tool-write-note": func(h heardTurn) bool {
			return strings.Contains(h.text, "writeToFile") && strings.Contains(h.text, "👩‍👩‍👧")
		},
		"followup-tool-output":      func(h heardTurn) bool { return h.text != "" && len(h.calls) == 0 },
		"incomplete-max-tokens":     func(h heardTurn) bool { return strings.Contains(h.code, "max_output_tokens") && h.text != "" },
		"incomplete-content-filter": func(h heardTurn) bool { return strings.Contains(h.code, "content_filter") },
		"error-cutoff":              func(h heardTurn) bool { return h.text != "" && h.status == "failed" },
		"error-after-text":          func(h heardTurn) bool { return h.text != "" && h.status == "failed" },
		"error-http-401":            func(h heardTurn) bool { return strings.HasPrefix(h.code, "httpConnectionFailed") },
		"error-http-429":            func(h heardTurn) bool { return strings.HasPrefix(h.code, "responseTooManyFailedAttempts") },
		"error-rate-limit":          func(h heardTurn) bool { return strings.HasPrefix(h.code, "rateLimitExceeded") },
		"error-quota":               func(h heardTurn) bool { return strings.HasPrefix(h.code, "usageLimitExceeded") },
		"error-context-window":      func(h heardTurn) bool { return strings.HasPrefix(h.code, "contextWindowExceeded") },
		"compaction":                func(h heardTurn) bool { return h.status == "completed" },
	} {
		if h := fromRecording(recorded(t, name)); !wanted(h) {
			t.Errorf("%s holds %+v", name, h)
		}
	}
}

func TestInterruptedTurnSaysSo(t *testing.T) {
	c := connect(t, Options{Faults: Faults{StallAfter: 9}}, nil)
	thread := begin(t, c, recorded(t, "text"))
	begun := untilText(t, thread)
	must.OK(t, thread.Interrupt(patient(t)))
	got := take(t, thread)
	got.text = begun + got.text
	if whole := fromRecording(recorded(t, "text")).text; got.status != "interrupted" || got.text == "" || !strings.HasPrefix(whole, got.text) || got.text == whole {
		t.Errorf("got %+v", got)
	}
	if err := thread.Interrupt(patient(t)); err == nil {
		t.Error("a turn that has ended was interrupted")
	}
}

func TestWhichRecordingIsPlayed(t *testing.T) {
	dir := t.TempDir()
	for name, turn := range map[string]string{
		"b-history": `{"dir":"to_server","message":{"id":2,"method":"thread/inject_items","params":{"items":[{"type":"message","content":[{"type":"input_text","text":"h1"}]},{"type":"function_call","name":"f","arguments":"{}","call_id":"x"},{"type":"function_call_output","output":"o","call_id":"x"}]}}}
{"dir":"from_server","message":{"id":2,"result":{}}}
{"dir":"to_server","message":{"id":3,"method":"turn/start","params":{"input":[{"type":"text","text":"q"}]}}}
{"dir":"from_server","message":{"id":3,"result":{"turn":{"id":"turn-1"}}}}`,
		"a-plain": `{"dir":"to_server","message":{"id":3,"method":"turn/start","params":{"input":[{"type":"text","text":"q"}]}}}
{"dir":"from_server","message":{"id":3,"result":{"turn":{"id":"turn-1"}}}}`,
		"c-image": `{"dir":"to_server","message":{"id":3,"method":"turn/start","params":{"input":[{"type":"image","url":"data:,x"}]}}}
{"dir":"from_server","message":{"id":3,"result":{"turn":{"id":"turn-1"}}}}`,
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name+".jsonl"), []byte(turn), 0o600))
	}
	all, err := Load(dir)
	must.OK(t, err)
	if names := all.Names(); !reflect.DeepEqual(names, []string{"a-plain", "b-history", "c-image"}) {
		t.Errorf("loaded %q", names)
	}
	const history = "h1" + separator + "f" + separator + "{}" + separator + "o" + separator
	for _, test := range []struct{ input, history, fallback, want string }{
		{"q" + separator, history, "", "b-history"},
		{"q" + separator, "", "", "a-plain"},
		{"q" + separator, "another" + separator, "", "a-plain"},
		{"data:,x" + separator, "", "", "c-image"},
		{"?" + separator, "", "", ""},
		{"?" + separator, "", "b-history", "b-history"},
		{"", history, "", ""},
	} {
		got := ""
		if turn := all.find(test.input, test.history, test.fallback); turn != nil {
			got = turn.name
		}
		if got != test.want {
			t.Errorf("%q with %q: %q is played, want %q", test.input, test.history, got, test.want)
		}
	}
}

// TestRefusals checks that wrong calls are refused as by Codex.
func TestRefusals(t *testing.T) {
	reader, client := lines(t)
	for _, test := range []struct{ call, want string }{
		{`{"id":1,"method":"model/list","params":{}}`, "Not initialized"},
		{`{"id":2,"method":"initialize","params":{"clientInfo":{"name":"x"}}}`, ""},
		{`{"id":3,"method":"future/thing","params":{}}`, "unknown variant"},
		{`{"id":4,"method":"turn/start","params":{"threadId":"none","input":[]}}`, "thread not found"},
		{`{"id":5,"method":"thread/start","params":{}}`, ""},
		{`{"id":6,"method":"turn/interrupt","params":{"threadId":"00000000-0000-7000-8000-000000000001","turnId":""}}`, "no active turn"},
	} {
		client(test.call)
		answer := gjson.Parse(reader())
		if message := answer.Get("error.message").Str; !strings.Contains(message, test.want) || (message == "") != (test.want == "") {
			t.Errorf("%s was answered with %s", test.call, answer.Raw)
		}
	}
	client(`{"id":7,"method":"turn/start","params":{"threadId":"00000000-0000-7000-8000-000000000001","input":[]}}`)
	client(`{"id":8,"method":"turn/interrupt","params":{"threadId":"00000000-0000-7000-8000-000000000001","turnId":"another"}}`)
	for {
		if answer := gjson.Parse(reader()); answer.Get("id").Int() == 8 {
			if !answer.Get("error").Exists() {
				t.Errorf("a turn of another id was interrupted: %s", answer.Raw)
			}
			return
		}
	}
}
