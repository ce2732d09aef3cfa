package replay

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
)

var file = flag.String("replay", "", "the recording that is replayed, in place of those in testdata/recordings")

// TestReplay replays recordings, and compares what goes out byte for byte.
func TestReplay(t *testing.T) {
	testdata := filepath.Join("..", "..", "..", "testdata")
	transcripts, err := fakecodex.Load(filepath.Join(testdata, "transcripts"))
	must.OK(t, err)
	paths, err := filepath.Glob(filepath.Join(testdata, "recordings", "*.jsonl"))
	must.OK(t, err)
	if *file != "" {
		paths = []string{*file}
	}
	if len(paths) == 0 {
		t.Fatal("there are no recordings")
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			must.OK(t, err)
			entries, err := Load(text)
			must.OK(t, err)
			difference, err := Run(t, entries, transcripts)
			switch {
			case errors.Is(err, ErrUnjudged) && *file != "":
				needs.Missing(t, err.Error())
			case err != nil:
				t.Error(err)
			case difference != "":
				t.Error(difference)
			}
		})
	}
}

// TestFixed: only what must differ between two answers may differ.
func TestFixed(t *testing.T) {
	recorded := `{"id":"chatcmpl-a1","created":17,"system_fingerprint":"fp_1ac478c60e","content":"a"}`
	replayed := `{"id":"chatcmpl-b2","created":18,"system_fingerprint":"fp_793ba5c23d","content":"a"}`
	if fixed(recorded) != fixed(replayed) || fixed(recorded) == fixed(strings.ReplaceAll(replayed, `"a"`, `"b"`)) {
		t.Errorf("%s and %s", fixed(recorded), fixed(replayed))
	}
}

// TestLinesAreMissing: a file whose lines to the app-server were removed is not what the gateway does now.
func TestLinesAreMissing(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "recordings", "chat-stream.jsonl"))
	must.OK(t, err)
	entries, err := Load(text)
	must.OK(t, err)
	transcripts, err := fakecodex.Load(filepath.Join("..", "..", "..", "testdata", "transcripts"))
	must.OK(t, err)
	entries = slices.DeleteFunc(entries, func(e recorder.Entry) bool { return e.Dir == recorder.ToServer })
	if difference, err := Run(t, entries, transcripts); err != nil || difference == "" {
		t.Errorf("%s, %v", difference, err)
	}
}
