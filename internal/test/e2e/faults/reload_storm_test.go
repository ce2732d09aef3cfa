package faults

import (
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

const (
	stormReloads = 100
	stormStreams = 50
	stormTime    = 12 * time.Minute // bounds a test that takes one minute on two cores
	// stormHeap is the allowed growth of the heap, in bytes. The model's record of
	// requests takes 1 MiB, the back end's of calls as much, the gateway's record of turns
	// 256 KiB. A hundred configurations would take much more.
	stormHeap = 3 << 20
)

// TestReloadStorm reloads a hundred times, every fourth time with another app_server,
// while fifty streams run. Every stream must be complete, and afterwards processes,
// goroutines and memory must be as before.
func TestReloadStorm(t *testing.T) {
	s := e2e.NewSite(t, "")
	// Both readings are taken before the first turn of a codex, since its
	// connections to the model have goroutines.
	e2e.WaitFor(t, "the app-server alone", func() bool { return len(e2e.Children()) == 1 }) // the plan's back end asks codex for its models
	before := takeReading(s)
	storm := newStorm(s)
	defer storm.end()
	for range stormStreams {
		storm.clients.Go(storm.stream)
	}
	storm.clients.Go(storm.probe)
	if _, err := s.Model.Wait(storm.ctx, func(now scriptedmodel.Stats) bool { return now.Requests >= stormStreams }); err != nil {
		t.Fatal(err)
	}
	for i := range stormReloads {
		storm.reload(stormfile(s, i/4, i))
	}
	storm.end()
	storm.reload(s.Caddyfile(""))
	streams := int(storm.ended.Load())
	e2e.WaitFor(t, "the model to count the streams", func() bool { return s.Model.Stats().Finished >= streams })
	if now := s.Model.Stats(); now.Finished != streams || now.ClosedEarly != 0 {
		t.Errorf("%d streams were read, and the model says: %+v", streams, now)
	}
	storm.checkConnections()
	e2e.WaitFor(t, "the old app-servers to end", func() bool {
		return len(e2e.Children()) == before.children && len(storm.orphans()) == 0
	})
	var after reading
	defer func() { t.Logf("%d streams; before %+v, after %+v", streams, before, after) }()
	e2e.WaitFor(t, "goroutines and memory to be back", func() bool {
		after = takeReading(s)
		return after.goroutines <= before.goroutines && after.heap <= before.heap+stormHeap
	})
}

// stormfile returns a configuration with two numbers that may change.
func stormfile(s *e2e.Site, appServer, other int) string {
	return s.Caddyfile(fmt.Sprintf("app_server %s app-server {\nhome %s\nenv GENERATION %d\n}\nidle_timeout %dm",
		e2e.CodexBinary, s.Home, appServer, 5+other))
}

// reading holds what must not grow.
type reading struct {
	children, goroutines int
	heap                 uint64 // bytes in use
}

func takeReading(s *e2e.Site) reading {
	http.DefaultClient.CloseIdleConnections()
	runtime.GC()
	runtime.GC() // frees what pools held
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return reading{len(e2e.Children()), runtime.NumGoroutine(), memory.HeapAlloc}
}
