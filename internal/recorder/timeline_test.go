package recorder

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTimelines compares the timelines of recordings, which the gateway has made with a fake app-server, with the
// text beside each. With UPDATE_GOLDEN=1 it writes these texts.
func TestTimelines(t *testing.T) {
	files, _ := filepath.Glob("testdata/timelines/*.jsonl")
	if len(files) < 7 {
		t.Fatalf("there are only %q", files)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			entries, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			timeline := NewTimeline(entries)
			checkPhases(t, &timeline)
			golden := strings.TrimSuffix(file, "jsonl") + "txt"
			got := timelineText(&timeline)
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if want, _ := os.ReadFile(golden); got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func timelineText(timeline *Timeline) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%q %v: %s\n\n", timeline.Code, timeline.Duration, timeline.Cause)
	for _, p := range timeline.Phases {
		fmt.Fprintf(&out, "%-8s %9v %9v\n", p.Name, p.Begin, p.End)
	}
	out.WriteString("\n")
	for _, r := range timeline.Rows {
		fmt.Fprintf(&out, "%9v %d %-11s %s\n", r.At, r.Choice, r.Kind, r.Text)
	}
	return out.String()
}

// checkPhases checks that the phases have no gaps and add up to the duration.
func checkPhases(t *testing.T, timeline *Timeline) {
	t.Helper()
	at := Millis(0)
	for _, p := range timeline.Phases {
		if p.Begin != at || p.End <= p.Begin || p.Name == "" {
			t.Fatalf("%+v follows %v in %+v", p, at, timeline.Phases)
		}
		at = p.End
	}
	if at != timeline.Duration {
		t.Fatalf("the phases end at %v of %v: %+v", at, timeline.Duration, timeline.Phases)
	}
}

// TestTimelineOfAnything checks the timelines of entries in any order, with any content, as of a damaged file.
func TestTimelineOfAnything(t *testing.T) {
	messages := []string{
		"", "null", "7", `"x"`, `[]`, `{}`, `{"params":7,"method":8,"id":{}}`, `{"kind":"text","bytes":-1}`, `[{"kind":"text","bytes":5}]`,
		`{"id":1,"method":"thread/start"}`, `{"id":1,"result":{}}`, `{"id":1,"error":{"message":"m"}}`, `{"method":"turn/completed"}`,
		`{"method":"item/agentMessage/delta","params":{"delta":"abc"}}`, `{"method":"item/started","params":{"item":{"type":"reasoning"}}}`,
		`{"status":200}`, `{"error":"e"}`,
	}
	notes := []string{"", "waiting", "starting", "running", "closed", "failed", "codex_exited"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		entries := make([]Entry, random.IntN(12))
		for i := range entries {
			entries[i] = Entry{
				At: Millis(random.Int64N(int64(5 * time.Millisecond))), Dir: dirs[random.IntN(len(dirs))], Choice: random.IntN(3),
				Note: notes[random.IntN(len(notes))], Message: json.RawMessage(messages[random.IntN(len(messages))]),
			}
			if entries[i].Dir == ToClient {
				entries[i].Took = Millis(random.Int64N(int64(3 * time.Millisecond)))
			}
		}
		timeline := NewTimeline(entries)
		checkPhases(t, &timeline)
	}
}

// TestTimelineEnds checks what is said of recordings that have no end, or lack a part.
func TestTimelineEnds(t *testing.T) {
	for want, entries := range map[string][]Entry{
		"The recording has no end.": {{Dir: FromServer, Message: json.RawMessage(`{"method":"turn/started"}`)}},
		"The client got the whole answer. The recording is not complete, since it was too large.": {
			{Dir: FromClient, Message: json.RawMessage(`{"cut":true}`)}, {Dir: End},
		},
		"See docs/errors.md for the code of the error.": {{Dir: End, Note: "unheard_of"}},
	} {
		if got := NewTimeline(entries).Cause; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestEndings checks that the docs have the codes that are explained.
func TestEndings(t *testing.T) {
	docs, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(endings) {
		code, cause, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		ours := slices.Contains([]string{"aborted", "client_gone", "complete", "incomplete"}, code)
		if !ours && !strings.Contains(string(docs), "`"+code+"`") || !strings.HasSuffix(cause, ".") {
			t.Errorf("%q is no code of docs/errors.md with a sentence", line)
		}
	}
}
