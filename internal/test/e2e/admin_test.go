package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/live"
	"github.com/caddy-codex/caddy-codex/internal/status"
)

// adminStatus is the body of GET /codex/status, with the members that tests read.
type adminStatus struct {
	AppServers []struct {
		ID, Program, Home, State, Version, Reason string
		Login                                     status.Login
		PID                                       int
		Restarts                                  int
	} `json:"app_servers"`
	Turns    struct{ Running, Waiting int }
	Requests []live.Request
}

// withAdmin gives the site an admin endpoint until the end of the test, and returns a
// client for it.
func (s *site) withAdmin(caddyfile string) *site {
	s.t.Helper()
	admin := &site{t: s.t, addr: freeAddr(s.t)}
	admin.url = "http://" + admin.addr
	s.load(strings.Replace(caddyfile, "admin off", "admin "+admin.addr, 1))
	s.t.Cleanup(func() { s.load(s.caddyfile("")) }) // without the admin endpoint
	return admin
}

func (s *site) status() (status adminStatus) {
	s.t.Helper()
	s.getJSON("/codex/status", &status)
	return status
}

// TestAdminStatus checks that the status has the processes and no secrets.
func TestAdminStatus(t *testing.T) {
	s := newSite(t, "")
	admin := s.withAdmin(s.caddyfile("api_key sk-admin-test"))
	s.waitReady()
	var wg sync.WaitGroup
	ctx, leave := contextFor(t)
	wg.Go(func() {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(chatBody("hang", nil)))
		if err != nil {
			t.Error(err)
			return
		}
		request.Header = bearer("sk-admin-test")
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
		}
	})
	s.waitOpen(1)
	status := admin.status()
	if len(status.AppServers) != 1 || status.Turns.Running != 1 || status.Turns.Waiting != 0 {
		t.Fatalf("%+v", status)
	}
	if a := status.AppServers[0]; a.ID == "" || a.Program != "codex" || a.Home != s.home || a.State != "ready" || a.Login.State != "unknown" ||
		a.Version == "" || a.PID == 0 {
		t.Errorf("%+v", a)
	}
	leave()
	wg.Wait()
	waitFor(t, "the end of the turn", func() bool { return admin.status().Turns.Running == 0 })
	if _, text := admin.get("/codex/status"); strings.Contains(text, "sk-admin-test") {
		t.Error("the key is told:", text)
	}
	for path, method := range map[string]string{"/codex/status": http.MethodPost, "/codex/restart": http.MethodGet} {
		response := admin.do(method, path, nil, nil)
		if admin.read(response); response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") == "" {
			t.Errorf("%s %s: %s", method, path, response.Status)
		}
	}
}

// summary says of the requests under way whose they are and what they do.
func (s adminStatus) summary() string {
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
	s := newSite(t, "")
	options := "page on\napi_key sk-a ann\napi_key sk-b bob\nmax_concurrent 2\nmax_per_user 2\nmax_queue 4 10m\n"
	file := func(more string) string { return s.caddyfile(options + more) }
	admin := s.withAdmin(file(""))
	s.waitReadyAs(bearer("sk-a"))
	public := func(key string) (status adminStatus) {
		response := s.do(http.MethodGet, "/codex/status", nil, bearer(key))
		if err := json.Unmarshal([]byte(s.read(response)), &status); err != nil {
			t.Fatal(err)
		}
		return status
	}
	s.post(chatBody(`tool:find {"q":1}`, fields{"tools": []any{fields{"type": "function", "function": fields{"name": "find"}}}}), bearer("sk-b"))
	ctx, leave := contextFor(t)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer leave()
	for _, c := range []struct{ key, script, now string }{
		{"sk-a", "say:secret; hang", "ann answering, bob parked"},
		{"sk-b", "hang", "ann answering, bob parked, bob running"},
		{"sk-a", "say:secret", "ann answering, ann waiting, bob parked, bob running"},
	} {
		clients.Go(func() { s.postUntil(ctx, chatBody(c.script, fields{"stream": true}), bearer(c.key)) })
		waitFor(t, c.now, func() bool { return admin.status().summary() == c.now })
	}
	all := admin.status()
	for _, r := range all.Requests {
		waits := r.State == live.Waiting
		if r.ID == "" || r.Route != "chat" || r.Model != "gpt-5" || r.Choices != 1 || r.Since.IsZero() || (r.AppServer == all.AppServers[0].ID) == waits {
			t.Errorf("%+v", r)
		}
		if told := r.Characters > 0; told != (r.State == live.Answering || r.State == live.Parked) {
			t.Errorf("%d characters: %+v", r.Characters, r)
		}
	}
	if ann, bob := public("sk-a").summary(), public("sk-b").summary(); ann != "ann answering, ann waiting" || bob != "bob parked, bob running" {
		t.Errorf("ann sees %s; bob sees %s", ann, bob)
	}
	if _, text := admin.get("/codex/status"); strings.Contains(text, "secret") || strings.Contains(text, "sk-") || strings.Contains(text, "find") {
		t.Errorf("it has what was said: %s", text)
	}
	s.load(strings.Replace(file("usage all"), "admin off", "admin "+admin.addr, 1)) // which ends nothing
	if ann := public("sk-a").summary(); ann != "ann answering, ann waiting, bob parked, bob running" {
		t.Errorf("after a reload, ann sees %s", ann)
	}
	leave()
	waitFor(t, "the end of the requests", func() bool { return admin.status().summary() == "bob parked" })
}

// TestAdminStatusOfABrokenServer checks that the status has the reason.
func TestAdminStatusOfABrokenServer(t *testing.T) {
	s := newSite(t, "")
	admin := s.withAdmin(s.caddyfile("app_server /no/such/codex"))
	waitFor(t, "the reason", func() bool {
		status := admin.status()
		return len(status.AppServers) == 1 && status.AppServers[0].State == "backoff" && strings.Contains(status.AppServers[0].Reason, "check the command")
	})
	for _, query := range []string{"app_server=", "app-server=none"} {
		response := admin.do(http.MethodPost, "/codex/restart?"+query, nil, nil)
		if text := admin.read(response); response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s %s", query, response.Status, text)
		}
	}
	response := admin.do(http.MethodPost, "/codex/restart?app_server=none", nil, nil)
	if text := admin.read(response); response.StatusCode != http.StatusNotFound || !strings.Contains(text, "there is no app-server none") {
		t.Errorf("%s %s", response.Status, text)
	}
}

// TestAdminRestart checks that a restart replaces the process.
func TestAdminRestart(t *testing.T) {
	s := newSite(t, "")
	admin := s.withAdmin(s.caddyfile(""))
	s.waitReady()
	before := admin.status().AppServers[0]
	response := admin.do(http.MethodPost, "/codex/restart", nil, nil)
	var body struct{ Restarted []string }
	if text := admin.read(response); json.Unmarshal([]byte(text), &body) != nil || !slices.Equal(body.Restarted, []string{before.ID}) {
		t.Fatalf("%s %s", response.Status, text)
	}
	waitFor(t, "another program", func() bool {
		now := admin.status().AppServers
		return len(now) == 1 && now[0].ID == before.ID && now[0].State == "ready" && now[0].PID != before.PID
	})
	if response, text := s.post(chatBody("say:ok", nil), nil); response.StatusCode != http.StatusOK {
		t.Error(response.Status, text)
	}
}
