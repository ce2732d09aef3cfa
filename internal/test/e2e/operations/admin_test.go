package operations

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestAdminStatus checks that the status has the processes and no secrets.
func TestAdminStatus(t *testing.T) {
	s := e2e.NewSite(t, "")
	admin := s.WithAdmin(s.Caddyfile("api_key sk-admin-test"))
	s.WaitReady()
	var wg sync.WaitGroup
	ctx, leave := e2e.ContextWithCancel(t)
	wg.Go(func() {
		s.PostUntil(ctx, e2e.ChatBody("hang", nil), e2e.Bearer("sk-admin-test"))
	})
	s.WaitOpen(1)
	status := admin.Status()
	if len(status.AppServers) != 1 || status.Turns.Running != 1 || status.Turns.Waiting != 0 {
		t.Fatalf("%+v", status)
	}
	if a := status.AppServers[0]; a.ID == "" || a.Program != "codex" || a.Home != s.Home || a.State != "ready" || a.Login.State != "unknown" ||
		a.Version == "" || a.PID == 0 {
		t.Errorf("%+v", a)
	}
	leave()
	wg.Wait()
	e2e.WaitFor(t, "the end of the turn", func() bool { return admin.Status().Turns.Running == 0 })
	if _, text := admin.Get("/codex/status"); strings.Contains(text, "sk-admin-test") {
		t.Error("the key is told:", text)
	}
	for path, method := range map[string]string{"/codex/status": http.MethodPost, "/codex/restart": http.MethodGet} {
		response, _ := admin.Call(method, path, nil, nil)
		if response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") == "" {
			t.Errorf("%s %s: %s", method, path, response.Status)
		}
	}
	for query, want := range map[string]int{"app_server=": http.StatusBadRequest, "app-server=none": http.StatusBadRequest, "app_server=none": http.StatusNotFound} {
		response, text := admin.Call(http.MethodPost, "/codex/restart?"+query, nil, nil)
		if response.StatusCode != want || want == http.StatusNotFound && !strings.Contains(text, "there is no app-server none") {
			t.Errorf("%s: %s %s", query, response.Status, text)
		}
	}
}

// summary says of the requests under way whose they are and what they do.
func summary(s e2e.AdminStatus) string {
	var all []string
	for _, r := range s.Requests {
		all = append(all, r.User[:strings.IndexByte(r.User+"@", '@')]+" "+string(r.State))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestRequestsUnderWay checks that the status lists each request with its state, the admin
// API those of everyone, and the page those whose usage the caller may see.
func TestRequestsUnderWay(t *testing.T) {
	s := e2e.NewSite(t, "")
	options := "page on\napi_key sk-a ann\napi_key sk-b bob\nmax_concurrent 2\nmax_per_user 2\nmax_queue 4 10m\n"
	file := func(more string) string { return s.Caddyfile(options + more) }
	admin := s.WithAdmin(file(""))
	s.WaitReadyAs(e2e.Bearer("sk-a"))
	public := func(key string) (status e2e.AdminStatus) {
		response := s.Do(http.MethodGet, "/codex/status", nil, e2e.Bearer(key))
		must.OK(t, json.Unmarshal([]byte(s.Read(response)), &status))
		return status
	}
	s.Post(e2e.ChatBody(`tool:find {"q":1}`, e2e.Fields{"tools": []any{e2e.Fields{"type": "function", "function": e2e.Fields{"name": "find"}}}}), e2e.Bearer("sk-b"))
	ctx, leave := e2e.ContextWithCancel(t)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer leave()
	for _, c := range []struct{ key, script, now string }{
		{"sk-a", "say:secret; hang", "ann answering, bob parked"},
		{"sk-b", "hang", "ann answering, bob parked, bob running"},
		{"sk-a", "say:secret", "ann answering, ann waiting, bob parked, bob running"},
	} {
		clients.Go(func() { s.PostUntil(ctx, e2e.ChatBody(c.script, e2e.Fields{"stream": true}), e2e.Bearer(c.key)) })
		e2e.WaitFor(t, c.now, func() bool { return summary(admin.Status()) == c.now })
	}
	all := admin.Status()
	for _, r := range all.Requests {
		waits := r.State == status.Waiting
		if r.ID == "" || r.Route != "chat" || r.Model != "gpt-5" || r.Choices != 1 || r.Since.IsZero() || (r.AppServer == all.AppServers[0].ID) == waits {
			t.Errorf("%+v", r)
		}
		if told := r.Characters > 0; told != (r.State == status.Answering || r.State == status.Parked) {
			t.Errorf("%d characters: %+v", r.Characters, r)
		}
	}
	if ann, bob := summary(public("sk-a")), summary(public("sk-b")); ann != "ann answering, ann waiting" || bob != "bob parked, bob running" {
		t.Errorf("ann sees %s; bob sees %s", ann, bob)
	}
	if _, text := admin.Get("/codex/status"); strings.Contains(text, "secret") || strings.Contains(text, "sk-") || strings.Contains(text, "find") {
		t.Errorf("it has what was said: %s", text)
	}
	s.Load(strings.Replace(file("usage all"), "admin off", "admin "+admin.Addr, 1)) // which ends nothing
	if ann := summary(public("sk-a")); ann != "ann answering, ann waiting, bob parked, bob running" {
		t.Errorf("after a reload, ann sees %s", ann)
	}
	leave()
	e2e.WaitFor(t, "the end of the requests", func() bool { return summary(admin.Status()) == "bob parked" })
}
