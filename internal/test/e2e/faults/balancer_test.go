package faults

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestBalancer lets 50 users, who share one key, have conversations of five requests through three
// nodes. Balancers that hash the user use all nodes, and each request finds the thread of the one
// before. The row with one node, and that with lost threads, are what docs/cluster.md warns of.
func TestBalancer(t *testing.T) {
	for policy, want := range map[string]struct{ spread, finds bool }{
		"":                               {true, true}, // that of the examples
		"lb_policy client_ip_hash":       {true, true},
		"lb_policy header Authorization": {false, true},
		"lb_policy random":               {true, false},
	} {
		t.Run(policy, func(t *testing.T) {
			c := e2e.NewClusterBehind(t, policy, func(int) string { return "api_key sk-team" })
			var users sync.WaitGroup
			room := make(chan struct{}, 6)
			for user := range 50 {
				users.Go(func() {
					room <- struct{}{}
					defer func() { <-room }()
					converse(c.Site, user)
				})
			}
			users.Wait()
			var loads []int
			found := 0
			for _, node := range c.Nodes {
				log := node.Log.String()
				loads = append(loads, strings.Count(log, `"route":"chat"`))
				found += strings.Count(log, `"thread":"continued"`)
			}
			t.Logf("requests of the nodes: %v; %d of 200 found their thread", loads, found)
			if spread := slices.Min(loads) > 0; spread != want.spread || found > 180 != want.finds {
				t.Errorf("%v, %d", loads, found)
			}
		})
	}
}

// converse has a conversation of five requests, as a gateway that has one key for all users.
func converse(s *e2e.Site, user int) {
	header := e2e.Bearer("sk-team")
	header.Set("X-User-Id", fmt.Sprintf("user-%d", user))
	header.Set("X-Forwarded-For", fmt.Sprintf("192.0.2.%d", user))
	var messages []e2e.Fields
	for i := range 5 {
		text := fmt.Sprintf("answer-%d-%d", user, i)
		messages = append(messages, e2e.Fields{"role": "user", "content": "say:" + text})
		answer := s.Do(http.MethodPost, "/v1/chat/completions", strings.NewReader(e2e.EncodeJSON(e2e.Fields{"model": "gpt-5", "messages": messages})), header)
		if body := s.Read(answer); answer.StatusCode != http.StatusOK || !strings.Contains(body, text) {
			s.T.Errorf("user %d: %d %s", user, answer.StatusCode, body)
		}
		messages = append(messages, e2e.Fields{"role": "assistant", "content": text})
	}
}
