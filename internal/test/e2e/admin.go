package e2e

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/status"
)

// AdminStatus is the body of GET /codex/status, with the members that tests read.
type AdminStatus struct {
	AppServers []struct {
		ID, Program, Home, State, Version, Reason, Account string
		Login                                              status.Login
		PID                                                int
		Restarts                                           int
		Conversations                                      status.Conversations
		Instructions                                       string
		SerialModels                                       []string `json:"serial_models"`
		Notes                                              []string
		Windows                                            map[string]int `json:"context_windows"`
	} `json:"app_servers"`
	Turns    struct{ Running, Waiting int }
	Requests []status.Request
}

// WithAdmin gives the site an admin endpoint for the test, and returns a client for that.
func (s *Site) WithAdmin(caddyfile string) *Site {
	s.T.Helper()
	admin := s.Node()
	s.Load(strings.Replace(caddyfile, "admin off", "admin "+admin.Addr, 1))
	s.T.Cleanup(func() { s.Load(s.Wrap("respond ok")) }) // without the admin endpoint
	return admin
}

// Status returns what the admin API says. The site is that of [Site.WithAdmin].
func (s *Site) Status() (status AdminStatus) {
	s.T.Helper()
	s.GetJSON("/codex/status", &status)
	return status
}

// Samples returns all metrics of a site by name and labels.
func (s *Site) Samples() map[string]float64 {
	s.T.Helper()
	status, text := s.Get("/metrics")
	if status != http.StatusOK {
		s.T.Fatal(status, text)
	}
	values := make(map[string]float64)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(line, "#") {
			continue
		}
		// Values of labels may have spaces, but these have none.
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = n
		}
	}
	return values
}

// WithMetrics returns a Caddyfile that also serves /metrics.
func (s *Site) WithMetrics(options string) string {
	return s.Wrap("metrics /metrics\ncodex {\n" + s.AppServer() + "\n" + options + "\n}")
}

// Restart replaces the app-server and waits for the next one.
func Restart(s, admin *Site) {
	s.T.Helper()
	var before int
	WaitFor(s.T, "the end of another replacement", func() bool { // of a login that was seen meanwhile
		before = admin.Status().AppServers[0].PID
		response, text := admin.Call(http.MethodPost, "/codex/restart", nil, nil)
		if response.StatusCode >= 300 && !strings.Contains(text, "is being replaced already") {
			s.T.Fatal(response.Status, text)
		}
		return response.StatusCode < 300
	})
	WaitFor(s.T, "another program", func() bool {
		now := admin.Status().AppServers[0]
		return now.State == "ready" && now.PID != before
	})
}
