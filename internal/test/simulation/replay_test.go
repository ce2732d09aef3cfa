package simulation

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/replay"
)

var replays = flag.Int("replays", 60, "how many exchanges are recorded and replayed")

// TestReplays records exchanges of the simulation, with texts and without, and replays them. With -args -replays 1000
// -seed 7 it takes other ones, and more of them.
func TestReplays(t *testing.T) {
	transcripts := loadRecordings(t)
	replayed, unjudged, failures := 0, make(map[string]int), 0
	for seed := *firstSeed; replayed < *replays && failures < 5; seed++ {
		for name, text := range recordRun(t, seed, transcripts) {
			entries, err := recorder.Parse(text)
			must.OK(t, err)
			difference, err := replay.Run(t, entries, transcripts)
			switch {
			case errors.Is(err, replay.ErrUnjudged):
				unjudged[err.Error()]++
				continue
			case err != nil:
				difference = err.Error()
			}
			if replayed++; difference != "" {
				failures++
				path := filepath.Join(os.TempDir(), "replay-"+name+".jsonl")
				must.OK(t, os.WriteFile(path, text, 0o600))
				t.Errorf("seed %d, %s: %s", seed, path, difference)
			}
		}
	}
	skipped := 0
	for reason, n := range unjudged {
		t.Logf("%d: %s", n, reason)
		skipped += n
	}
	if t.Logf("%d exchanges were replayed", replayed); skipped > replayed/5 {
		t.Errorf("%d exchanges could not be replayed", skipped)
	}
}

// recordRun runs a plan, and returns the recordings of its exchanges.
func recordRun(t *testing.T, seed uint64, transcripts *fakecodex.Transcripts) map[string][]byte {
	t.Helper()
	var mu sync.Mutex
	all := make(map[string][]byte)
	rule := recorder.Rule{Mode: recorder.All, Texts: seed%2 == 0, Store: func(_, id string, recording []byte) {
		mu.Lock()
		defer mu.Unlock()
		all[strings.ReplaceAll(id, "/", "_")] = recording
	}}
	var r *run
	synctest.Test(t, func(*testing.T) { r = playRecorded(newPlan(seed), transcripts, rule) })
	if len(r.failures) > 0 {
		t.Fatalf("%s", r.report())
	}
	return all
}
