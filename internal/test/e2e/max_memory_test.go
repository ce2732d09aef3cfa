package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestMaxMemory checks that an app-server above its limit is replaced while streams
// run. None is cut, new turns go to the new one, the site stays ready, and the old one
// exits after its last stream. With a limit that is too low, codex is not replaced again
// and again.
func TestMaxMemory(t *testing.T) {
	place := newLab(t).newSite()
	r := place.runFile(place.caddyfile(place.pool("max_memory 1MiB")))
	r.waitUp()
	old := appServers()
	if len(old) != 1 {
		t.Fatalf("%d app-servers", len(old))
	}
	streams := r.streams(4, half, "Half")
	replaced := func() bool { return strings.Contains(r.log.String(), "the codex app-server was replaced") }
	for !replaced() {
		if status, body := r.readiness(); status != http.StatusOK || body.AppServer != "ready" {
			t.Errorf("while it is replaced: %d %+v", status, body)
		}
		if response, text := r.post(chatBody("say:meanwhile", nil), nil); response.StatusCode != http.StatusOK {
			t.Errorf("a turn meanwhile: %s %s", response.Status, text)
		}
	}
	after := r.streams(2, half, "Half")
	for _, stream := range append(streams, after...) {
		if text := r.rest(stream); !isWhole(text) {
			t.Errorf("a stream ended with %q", text)
		}
	}
	waitFor(t, "the old one to end", func() bool { return allGone(old)() })
	waitFor(t, "the log to say that the limit is too low", func() bool {
		return strings.Contains(r.log.String(), "will be replaced later")
	})
	if log := r.log.String(); strings.Count(log, "the codex app-server was replaced") != 1 || strings.Contains(log, "is not running") {
		t.Errorf("it was replaced %d times", strings.Count(log, "the codex app-server was replaced"))
	}
	if status, body := r.readiness(); status != http.StatusOK || body.AppServer != "ready" || body.Reason != "" {
		t.Errorf("in the end: %d %+v", status, body)
	}
}
