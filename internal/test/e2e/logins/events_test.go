package logins

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// webhookReceiver keeps the names and data of the events that are posted to it.
type webhookReceiver struct {
	sync.Mutex
	events []string
}

func (wr *webhookReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var event caddy.CloudEvent
	if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	wr.Lock()
	defer wr.Unlock()
	wr.events = append(wr.events, event.Type+string(event.Data))
}

// take removes one such event, and reports whether there was one.
func (wr *webhookReceiver) take(event string) bool {
	wr.Lock()
	defer wr.Unlock()
	i := slices.Index(wr.events, event)
	if i >= 0 {
		wr.events = slices.Delete(wr.events, i, i+1)
	}
	return i >= 0
}

// TestEventsOfUse provokes the events that come before something ends: of a key, of a plan's
// windows, and of a login that has to be renewed. Each threshold is told once, also to a webhook.
func TestEventsOfUse(t *testing.T) {
	e2e.OwnTemp(t)
	e2e.WithLogin(t)
	plan := newAccount(t, nil)
	plan.Login.SetUse(planbackend.Use{Primary: 85, Secondary: 100})
	keys := e2e.NewKeyFile(t, map[string]string{"sk-ann": "user ann\nrequests 5 24h"})
	s, witness := e2e.NewUnstarted(t), rand.Text()
	posted := new(webhookReceiver)
	receiver := httptest.NewServer(posted)
	defer receiver.Close()
	var on strings.Builder
	for _, name := range []string{"key_used", "plan_used", "login_changed"} {
		fmt.Fprintf(&on, "on codex.%s witness %s\non codex.%[1]s codex_webhook %[3]s\n", name, witness, receiver.URL)
	}
	config := strings.Replace(s.Caddyfile(plan.block+"api_keys_file "+keys.Path), "admin off", "admin off\nevents {\n"+on.String()+"}", 1)
	s.Serve(plan.block)
	admin := s.WithAdmin(config)
	s.WaitReady()

	passed := func(name string, percent int, more string) map[string]any {
		t.Helper()
		return awaitEvent(t, witness, "codex."+name, func(data map[string]any) bool {
			return data["percent"] == percent && strings.Contains(fmt.Sprint(data), more)
		}).data
	}
	for i := range 6 {
		want := http.StatusOK
		if i == 5 {
			want = http.StatusTooManyRequests
		}
		if status, text := e2e.StatusOf(s, "sk-ann", nil); status != want {
			t.Fatal(i, status, text)
		}
	}
	ahead := func(data map[string]any) bool {
		at, err := time.Parse(time.RFC3339, data["resets_at"].(string))
		return err == nil && at.After(time.Now())
	}
	for percent, used := range map[int]float64{80: 4, 100: 5} {
		data := passed("key_used", percent, "")
		if data["key"] != fmt.Sprintf("%x", "sk-ann") || data["user"] != "ann@"+s.Addr || data["unit"] != "requests" || data["window"] != "24h" ||
			data["limit"] != 5.0 || data["used"] != used || data["remaining"] != 5-used || !ahead(data) || data["app_server"] != nil {
			t.Errorf("%v", data)
		}
	}

	id := admin.Status().AppServers[0].ID
	for percent, window := range map[int]string{80: "5h", 100: "7d"} {
		data := passed("plan_used", percent, window)
		if !ahead(data) || data["app_server"] != id || data["plan"] != "pro" {
			t.Errorf("%v", data)
		}
	}

	keys.Write(map[string]string{"sk-eve": ""})
	plan.answer(signedOut)
	e2e.WaitFor(t, "the key of eve", func() bool { status, _ := e2e.StatusOf(s, "sk-eve", nil); return status != http.StatusUnauthorized })
	awaitEvent(t, witness, "codex.login_changed", func(data map[string]any) bool {
		return data["state"] == "signed_out" && data["app_server"] == id && strings.Contains(data["reason"].(string), "codex login")
	})
	told := make(map[string]int)
	for _, e := range eventsOf(witness) {
		told[e.name]++
		data, err := json.Marshal(e.data)
		must.OK(t, err)
		e2e.WaitFor(t, "the post of "+e.name+string(data), func() bool { return posted.take(e.name + string(data)) })
	}
	if told["codex.key_used"] != 2 || told["codex.plan_used"] != 2 {
		t.Errorf("%v", told)
	}
}

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

// TestEvents: the current configuration's subscribers get the starts and exits of app-servers.
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

// newerCodex returns the path of a program that is Codex, but says that it is 99.0.0.
func newerCodex(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "newer")
	e2e.WriteFile(t, path, "#!/bin/sh\n'"+e2e.CodexBinary+`' "$@" | sed -u 's,\("userAgent":"[^/]*/\)[0-9.]*,\199.0.0,'`+"\n")
	must.OK(t, os.Chmod(path, 0o700))
	return path
}

// TestUpdateOfCodex puts another program in place of Codex, which says another version: the status says so,
// and after the restart an event tells what is new.
func TestUpdateOfCodex(t *testing.T) {
	e2e.OwnTemp(t)
	s, witness, bin := e2e.NewUnstarted(t), rand.Text(), filepath.Join(t.TempDir(), "codex")
	must.OK(t, os.Symlink(e2e.CodexBinary, bin))
	config := strings.Replace(s.Caddyfile(strings.Replace(s.AppServer(), e2e.CodexBinary, bin, 1)), "admin off",
		"admin off\nevents {\non codex.version_changed witness "+witness+"\non codex.login_changed witness "+witness+"\n}", 1)
	s.Serve("")
	admin := s.WithAdmin(config)
	s.WaitReady()
	s.Served("say:hello")
	always := func(map[string]any) bool { return true }
	awaitEvent(t, witness, "codex.login_changed", always) // the version and the model were seen before
	before := admin.Status().AppServers[0]
	notes := func() string { return strings.Join(admin.Status().AppServers[0].Notes, "; ") }
	if strings.Contains(notes(), "restart") {
		t.Errorf("before the update, it says %s", notes())
	}

	must.OK(t, os.Rename(newerCodex(t), bin))
	if !strings.Contains(notes(), "`caddy codex restart`") {
		t.Errorf("after the update, it says %s", notes())
	}
	e2e.Restart(s, admin)

	if data := awaitEvent(t, witness, "codex.version_changed", always).data; data["version"] != "99.0.0" || data["before"] != before.Version || data["app_server"] != before.ID {
		t.Errorf("%v", data)
	}
	if told := notes(); !strings.Contains(told, "Codex 99.0.0 is newer than what was tested (") || strings.Contains(told, "restart") {
		t.Errorf("after the restart, it says %s", told)
	}
}

// TestDefaultModelChanges lets the back end of a login give its first place to other models: one event tells each,
// for two app-servers, as soon as a next one has the list. A list that cannot be read changes nothing, nor does a
// reload, nor another login with another default. The model in Codex's own configuration goes first.
func TestDefaultModelChanges(t *testing.T) {
	const name = "codex.default_model_changed"
	e2e.OwnTemp(t)
	e2e.WithLogin(t)
	s, other, witness := e2e.NewUnstarted(t), newAccount(t, nil), rand.Text()
	options := strings.Replace(s.AppServer(), "{", "{\nprocesses 2", 1) + "\n" + other.block
	config := strings.Replace(s.Caddyfile(options), "admin off", "admin off\nevents {\non "+name+" witness "+witness+"\n}", 1)
	unreadable := func() (mend func()) {
		return s.Plan.Fail(planbackend.Models, planbackend.Status(http.StatusInternalServerError))
	}
	mend := unreadable()
	s.Serve(options)
	admin := s.WithAdmin(config)
	s.WaitMembers(3)
	newest := 0
	slug := func(n int) string { return fmt.Sprint("gpt-7.", n) }
	next := func() {
		newest++
		must.OK(t, s.Plan.AddModel(slug(newest), "gpt-6-sol", map[string]any{"priority": -newest, "context_window": 20_000 + newest}))
		e2e.Restart(s, admin)
	}
	restartAndTell := func() (model string) {
		e2e.WaitFor(t, "an event of a new default", func() bool { // again, if the default before was not seen yet
			next()
			for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
				if slices.ContainsFunc(eventsOf(witness), func(e seenEvent) bool { return e.data["model"] == slug(newest) }) {
					return true
				}
			}
			return false
		})
		return slug(newest)
	}
	e2e.WaitFor(t, "the list to be asked for", func() bool { return s.Plan.Count(planbackend.Models) > 0 })
	admin.Status() // waits for the answers
	mend()
	first := restartAndTell()
	mend = unreadable()
	e2e.Restart(s, admin)
	admin.Status()
	mend()
	s.Load(strings.Replace(strings.Replace(config, "admin off", "admin "+admin.Addr, 1), "codex {", "codex {\nkeepalive 20s", 1))
	second := restartAndTell()
	file := filepath.Join(s.Home, "config.toml")
	e2e.WriteFile(t, file, "model = \"gpt-6-sol\"\n"+e2e.ReadFile(t, file))
	e2e.Restart(s, admin)
	awaitEvent(t, witness, name, func(data map[string]any) bool { return data["model"] == "gpt-6-sol" })

	windows, told := map[any]any{"gpt-6-sol": 272_000}, make(map[any]int)
	for n := range newest {
		windows[slug(n+1)] = 20_000 + n + 1
	}
	for _, e := range eventsOf(witness) {
		told[e.data["model"]]++
		for _, which := range []string{"", "_before"} {
			model := e.data[cmp.Or(strings.TrimPrefix(which, "_"), "model")]
			if window, ours := windows[model]; !ours || e.data["context_window"+which] != window || e.data["limit"+which] != "codex" {
				t.Errorf("%v", e.data)
			}
		}
	}
	if told[first] != 1 || told[second] != 1 || told["gpt-6-sol"] != 1 {
		t.Errorf("%v", told)
	}
}
