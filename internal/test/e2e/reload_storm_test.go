package e2e

import (
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

const (
	stormReloads = 100
	stormStreams = 50
	stormTime    = 5 * time.Minute // bounds a test that takes one on two cores
	// stormHeap is what the heap may grow by, in bytes: the model's record of its
	// last requests takes one MiB, the gateway's of its last turns a quarter of
	// one. A hundred configurations would be much more.
	stormHeap = 3 << 20
)

// TestReloadStorm: a hundred reloads, half of them with another app_server,
// under fifty streams that begin anew as they end. Every stream is whole, and
// afterwards processes, goroutines and memory are where they were.
func TestReloadStorm(t *testing.T) {
	s := newSite(t, "")
	// Both readings are taken with a codex that has had no turn yet: its
	// connections to the model are goroutines, too.
	before := s.reading()
	storm := newStorm(s)
	defer storm.end()
	for range stormStreams {
		storm.clients.Go(storm.stream)
	}
	storm.clients.Go(storm.probe)
	if _, err := s.model.Wait(storm.ctx, func(now scriptedmodel.Stats) bool { return now.Requests >= stormStreams }); err != nil {
		t.Fatal(err)
	}
	for i := range stormReloads {
		storm.reload(s.stormfile((i+1)/2, i/2))
	}
	storm.end()
	storm.reload(s.caddyfile(""))
	streams := int(storm.ended.Load())
	waitFor(t, "the model to count the streams", func() bool { return s.model.Stats().Finished >= streams })
	if now := s.model.Stats(); now.Finished != streams || now.ClosedEarly != 0 {
		t.Errorf("%d streams were read, and the model says: %+v", streams, now)
	}
	storm.checkConnections()
	waitFor(t, "the old app-servers to end", func() bool { return len(children()) == before.children })
	storm.checkOrphans()
	var after reading
	defer func() { t.Logf("%d streams; before %+v, after %+v", streams, before, after) }()
	waitFor(t, "goroutines and memory to be back", func() bool {
		after = s.reading()
		return after.goroutines <= before.goroutines && after.heap <= before.heap+stormHeap
	})
}

// stormfile is a configuration of which either number may change.
func (s *site) stormfile(appServer, other int) string {
	return s.caddyfile(fmt.Sprintf("app_server %s app-server {\nhome %s\nenv GENERATION %d\n}\nidle_timeout %dm",
		codexBinary, s.home, appServer, 5+other))
}

// reading is what must not grow.
type reading struct {
	children, goroutines int
	heap                 uint64 // bytes that are in use
}

func (s *site) reading() reading {
	http.DefaultClient.CloseIdleConnections()
	runtime.GC()
	runtime.GC() // what pools held is free after the second
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return reading{len(children()), runtime.NumGoroutine(), memory.HeapAlloc}
}
