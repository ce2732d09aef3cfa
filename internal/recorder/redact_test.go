package recorder

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
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
