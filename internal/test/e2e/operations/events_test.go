package operations

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

func init() {
	caddy.RegisterModule(new(eventWitness))
}

// eventWitness is an event handler that records events.
type eventWitness struct {
	Name string `json:"name"`
}

// witnessedEvents holds the events of all witnesses.
var witnessedEvents struct {
	sync.Mutex
	events []seenEvent
}

type seenEvent struct {
	witness, name, origin string
	data                  map[string]any
}

func (*eventWitness) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.witness", New: func() caddy.Module { return new(eventWitness) }}
}

// UnmarshalCaddyfile parses the name.
func (w *eventWitness) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.AllArgs(&w.Name) {
		return d.ArgErr()
	}
	return nil
}

func (w *eventWitness) Handle(_ context.Context, e caddy.Event) error {
	witnessedEvents.Lock()
	defer witnessedEvents.Unlock()
	event := seenEvent{witness: w.Name, name: e.Name(), data: e.Data}
	if e.Origin() != nil {
		event.origin = string(e.Origin().CaddyModule().ID)
	}
	witnessedEvents.events = append(witnessedEvents.events, event)
	return nil
}

// eventsOf returns the events of a witness.
func eventsOf(witness string) (events []seenEvent) {
	witnessedEvents.Lock()
	defer witnessedEvents.Unlock()
	for _, e := range witnessedEvents.events {
		if e.witness == witness {
			events = append(events, e)
		}
	}
	return events
}

// witnessed returns a Caddyfile with a witness for the module's events.
func witnessed(s *e2e.Site, name, options string) string {
	return strings.Replace(s.Caddyfile(options), "admin off",
		"admin off\nevents {\non codex.app_server_ready witness "+name+"\non codex.app_server_exited witness "+name+"\n}", 1)
}

// awaitEvent waits for an event of an app-server, chosen by its data, and returns it.
func awaitEvent(t *testing.T, witness, name string, is func(data map[string]any) bool) (found seenEvent) {
	t.Helper()
	e2e.WaitFor(t, witness+"'s "+name, func() bool {
		events := eventsOf(witness)
		i := slices.IndexFunc(events, func(e seenEvent) bool { return e.name == name && is(e.data) })
		if i >= 0 {
			found = events[i]
		}
		return i >= 0
	})
	return found
}

// TestEvents checks that subscribers in the current configuration get the starts and
// exits of app-servers.
func TestEvents(t *testing.T) {
	const readyName, exitedName = "codex.app_server_ready", "codex.app_server_exited"
	first, second := rand.Text(), rand.Text() // witnesses of this run
	s := e2e.NewSite(t, "")
	// There may be late events of the app-servers of tests before.
	e2e.WaitFor(t, "other app-servers to end", func() bool { return len(e2e.Children()) == 1 })
	old := e2e.Children()[0]
	s.Load(witnessed(s, first, "app_server "+e2e.CodexBinary+" app-server {\nhome "+s.Home+"\nenv WITNESSED yes\n}\n"))
	// The new configuration gets the exit of the old program.
	replaced := awaitEvent(t, first, exitedName, func(data map[string]any) bool { return strings.HasPrefix(old, fmt.Sprint(data["pid"], " ")) })
	if replaced.data["stopped"] != true || replaced.origin != "codex" {
		t.Errorf("%+v", replaced)
	}
	ready := awaitEvent(t, first, readyName, func(data map[string]any) bool { return data["app_server"] != replaced.data["app_server"] })
	ours := func(data map[string]any) bool { return data["app_server"] == ready.data["app_server"] }
	if ready.data["pid"] == 0 || ready.data["version"] == "" || ready.data["restarts"] != 0 {
		t.Errorf("%+v", ready)
	}
	s.Load(witnessed(s, second, "app_server "+e2e.CodexBinary+" app-server {\nhome "+s.Home+"\nenv WITNESSED yes\n}\nkeepalive 20s"))
	e2e.Kill(t, "codex")
	exited, again := awaitEvent(t, second, exitedName, ours), awaitEvent(t, second, readyName, ours)
	if exited.data["pid"] != ready.data["pid"] || exited.data["stopped"] != false || !strings.Contains(exited.data["reason"].(string), "signal: killed") {
		t.Errorf("%+v after %+v", exited, ready)
	}
	if again.data["pid"] == ready.data["pid"] || again.data["restarts"] != 1 {
		t.Errorf("%+v", again)
	}
	seen := slices.DeleteFunc(eventsOf(first), func(e seenEvent) bool {
		late := e.name == readyName // of the old program
		return !ours(e.data) && (late || e.data["app_server"] != replaced.data["app_server"])
	})
	if len(seen) != 2 {
		t.Errorf("the first configuration saw %+v", seen)
	}
}
