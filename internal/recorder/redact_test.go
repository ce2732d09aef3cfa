package recorder

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// transcripts are the recordings of the app-server, and what a client might get of them.
func transcripts(t testing.TB) map[string][]Entry {
	files, err := filepath.Glob("../../testdata/transcripts/*.jsonl")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	all := make(map[string][]Entry)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = append([]Entry{{Dir: FromClient, Message: json.RawMessage(`{"version":1}`)}}, entries...)
	}
	return all
}

// TestRedactDeltas checks that of the text of an item nothing is left, also if it was cut within a word.
func TestRedactDeltas(t *testing.T) {
	delta := func(text string) Entry {
		return Entry{Dir: FromServer, Message: json.RawMessage(`{"method":"item/agentMessage/delta","params":{"itemId":"m","delta":"` + text + `"}}`)}
	}
	entries := []Entry{{Dir: FromClient, Message: json.RawMessage(`{"version":1}`)}, delta("A sec"), delta("ret text")}
	redact(entries, false)
	if text := string(format(entries)); strings.Contains(text, "sec") || strings.Contains(text, "ret") || strings.Contains(text, "text\"}}") {
		t.Error(text)
	}
}

func TestRedactTranscripts(t *testing.T) {
	for name, entries := range transcripts(t) {
		redact(entries, os.Getenv("TEXTS") != "")
		for _, e := range entries {
			if len(e.Message) > 0 && !json.Valid(e.Message) {
				t.Errorf("%s: %s", name, e.Message)
			}
		}
	}
}

// TestRedactIDs checks that a thread has the same id in all lines, also in one about a failure, where some words stay.
func TestRedactIDs(t *testing.T) {
	line := func(method string) Entry {
		return Entry{Dir: FromServer, Message: json.RawMessage(`{"method":"` + method + `","params":{"threadId":"01a-4a02-401b-to","message":"no"}}`)}
	}
	entries := []Entry{{Dir: FromClient, Message: json.RawMessage(`{"version":1}`)}, line("turn/started"), line("error")}
	redact(entries, false)
	id := func(e Entry) string { return gjson.GetBytes(e.Message, "params.threadId").Str }
	if one, other := id(entries[1]), id(entries[2]); one != other {
		t.Errorf("%s, and %s in an error", one, other)
	}
}
