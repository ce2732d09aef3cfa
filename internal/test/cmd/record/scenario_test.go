package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var committed = filepath.Join("..", "..", "..", "..", "testdata", "transcripts")

func committedFiles(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"*.jsonl", "*/*.jsonl"} {
		found, err := filepath.Glob(filepath.Join(committed, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%d files (%v)", len(found), err)
		}
		files = append(files, found...)
	}
	return files
}

// startFake starts an app-server that plays the committed recordings of a set.
func startFake(of setting) (*appServer, error) {
	all, err := fakecodex.Load(filepath.Join(committed, of.set))
	if err != nil {
		return nil, err
	}
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- fakecodex.Serve(context.Background(), fromClient, toClient, fakecodex.Options{Transcripts: all})
	}()
	s := newAppServer(codexrpc.NewStdio(fromServer, toServer))
	s.cwd = "/work dir"
	s.names = map[string]string{s.cwd: "/workspace"}
	s.stop = func() error {
		_ = s.conn.Close()
		return <-ended
	}
	return s, nil
}

// TestScenariosMatchTheirRecordings: the product still sends and gets what was recorded.
func TestScenariosMatchTheirRecordings(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	recordings, err := recordAll(ctx, startFake, "")
	must.OK(t, err)
	if files := committedFiles(t); len(files) != len(recordings) {
		t.Errorf("%d files are committed, %d scenarios are there", len(files), len(recordings))
	}
	for _, r := range recordings {
		text, err := os.ReadFile(filepath.Join(committed, r.name+".jsonl"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, difference := range compare(text, r.text) {
			t.Errorf("%s: %s", r.name, difference)
		}
	}
}

// TestScenariosDiffer: no two scenarios have the same texts, by which a recording is found.
func TestScenariosDiffer(t *testing.T) {
	seen := make(map[string]string)
	for _, s := range scenarios() {
		question := s.set + gjson.Get(s.request, "messages").Raw
		if other := seen[question]; other != "" {
			t.Errorf("%s and %s ask the same", s.name, other)
		}
		seen[question] = s.name
	}
}

// TestRecordingsAreClean: recordings are small, and show no tokens and nothing of the machine.
func TestRecordingsAreClean(t *testing.T) {
	total := 0
	home, err := os.UserHomeDir()
	must.OK(t, err)
	for _, file := range committedFiles(t) {
		text, err := os.ReadFile(file)
		must.OK(t, err)
		total += len(text)
		for _, trace := range []string{os.TempDir() + "/", home + "/", "codex-home-", "0.0.0.0", "localhost", "eyJ", "made-up-"} {
			if bytes.Contains(text, []byte(trace)) {
				t.Errorf("%s speaks of %s", file, trace)
			}
		}
		for line := range bytes.Lines(text) {
			if !gjson.ValidBytes(line) {
				t.Errorf("%s has a line that is not JSON: %.100s", file, line)
			}
			if at := gjson.GetBytes(line, "message.emittedAtMs"); at.Int() != 0 {
				t.Errorf("%s tells when it was made", file)
			}
		}
	}
	if total > 600_000 {
		t.Errorf("the recordings take %d bytes", total)
	}
}

func TestRecordFails(t *testing.T) {
	for name, opts := range map[string]options{
		"no such program": {codex: filepath.Join(t.TempDir(), "none"), dir: committed, check: true},
		"exits at once":   {codex: "false", dir: committed, check: true},
	} {
		var report strings.Builder
		if err := run(t.Context(), opts, &report); err == nil {
			t.Errorf("%s: it went well: %s", name, report.String())
		}
	}
}
