package faults

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestMaxMemory checks that an app-server above its limit is replaced while streams
// run. None is cut, new turns go to the new one, the site stays ready, and the old one
// exits after its last stream. With a limit that is too low, codex is not replaced again
// and again.
func TestMaxMemory(t *testing.T) {
	e2e.WaitFor(t, "the app-servers of other tests to end", func() bool { return len(e2e.AppServers()) == 0 })
	place := e2e.NewUnstarted(t)
	r := place.RunFile(place.Caddyfile(place.Pool("max_memory 1MiB")))
	r.WaitUp()
	streams := openStreams(r.Site, 4, half)
	replaced := func() bool { return strings.Contains(r.Log.String(), "the codex app-server was replaced") }
	for !replaced() {
		if status, body := r.Readiness(); status != http.StatusOK || body.AppServer != "ready" {
			t.Errorf("while it is replaced: %d %+v", status, body)
		}
		if response, text := r.Post(e2e.ChatBody("say:meanwhile", nil), nil); response.StatusCode != http.StatusOK {
			t.Errorf("a turn meanwhile: %s %s", response.Status, text)
		}
	}
	after := openStreams(r.Site, 2, half)
	logged := regexp.MustCompile(`"replacing the codex app-server".*"pid":(\d+)`).FindStringSubmatch(r.Log.String())
	if logged == nil {
		t.Fatal("the log does not name the old one")
	}
	old, _ := strconv.Atoi(logged[1])
	for _, stream := range append(streams, after...) {
		if text := rest(r.Site, stream); !isWhole(text) {
			t.Errorf("a stream ended with %q", text)
		}
	}
	e2e.WaitFor(t, "the old one to end", func() bool { return !e2e.Alive(old) })
	e2e.WaitFor(t, "the log to say that the limit is too low", func() bool {
		return strings.Contains(r.Log.String(), "will be replaced later")
	})
	if log := r.Log.String(); strings.Count(log, "the codex app-server was replaced") != 1 || strings.Contains(log, "is not running") {
		t.Errorf("it was replaced %d times", strings.Count(log, "the codex app-server was replaced"))
	}
	if status, body := r.Readiness(); status != http.StatusOK || body.AppServer != "ready" || body.Reason != "" {
		t.Errorf("in the end: %d %+v", status, body)
	}
}
