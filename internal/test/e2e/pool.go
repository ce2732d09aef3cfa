package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// PoolReadiness is the body of /readyz.
type PoolReadiness struct {
	Status     string `json:"status"`
	AppServer  string `json:"app_server"`
	Login      string `json:"login"`
	Reason     string `json:"reason"`
	AppServers []struct {
		AppServer string `json:"app_server"`
		Login     string `json:"login"`
		Reason    string `json:"reason"`
	} `json:"app_servers"`
}

// Readiness requests /readyz.
func (s *Site) Readiness() (status int, body PoolReadiness) {
	s.T.Helper()
	status, text := s.Get("/readyz")
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		s.T.Fatalf("%v in %s", err, text)
	}
	return status, body
}

// WaitMembers waits until n app-servers are ready.
func (s *Site) WaitMembers(n int) {
	s.T.Helper()
	WaitFor(s.T, fmt.Sprint(n, " app-servers to be ready"), func() bool {
		_, body := s.Readiness()
		ready := 0
		for _, m := range body.AppServers {
			if m.AppServer == "ready" && (m.Reason == "" || m.Login == "spent") {
				ready++
			}
		}
		return ready == n
	})
}

// Pool returns an app_server block with several processes.
func (s *Site) Pool(more string) string {
	return strings.Replace(s.AppServer(), "{\n", "{\n"+more+"\n", 1)
}

// NewPoolSite returns a site with a pool of which this number are ready.
func NewPoolSite(t *testing.T, more string, members int) *Site {
	t.Helper()
	s := NewSite(t, "")
	s.Load(s.Caddyfile(s.Pool(more)))
	s.WaitMembers(members)
	s.WaitSuccessor(members) // the process of the first configuration is not in the pool
	return s
}
