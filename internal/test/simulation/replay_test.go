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
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/replay"
)

var replays = flag.Int("replays", 60, "how many exchanges are recorded and replayed")

// TestReplays records exchanges of the simulation, with texts and without, and replays them.
func TestReplays(t *testing.T) {
	transcripts := loadRecordings(t)
	replayed, unjudged, failures := 0, make(map[string]int), 0
	for seed := *firstSeed; replayed < *replays && failures < 5; seed++ {
		for name, text := range recordRun(t, seed) {
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
	for reason, n := range unjudged {
		t.Logf("%d: %s", n, reason)
	}
	t.Logf("%d exchanges were replayed", replayed)
}

// recordRun runs a plan, and returns the recordings of its exchanges.
func recordRun(t *testing.T, seed uint64) map[string][]byte {
	t.Helper()
	var mu sync.Mutex
	all := make(map[string][]byte)
	rule := recorder.Rule{Mode: recorder.All, Texts: seed%2 == 0, Store: func(id string, recording []byte) {
		mu.Lock()
		defer mu.Unlock()
		all[strings.ReplaceAll(id, "/", "_")] = recording
	}}
	var r *run
	synctest.Test(t, func(*testing.T) { r = playRecorded(newPlan(seed), loadRecordings(t), rule) })
	if len(r.failures) > 0 {
		t.Fatalf("%s", r.report())
	}
	return all
}
