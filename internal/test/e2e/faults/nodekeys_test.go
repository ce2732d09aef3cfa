package faults

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// TestKeysOfNodes lets clients use up limits at three nodes that share a Redis, each request at a
// random one, at full speed: exactly what the limits allow is let through, and each node shows the
// usage of all. In a Redis that was emptied they begin anew. Its clock is an hour ahead of the nodes.
func TestKeysOfNodes(t *testing.T) {
	server := redisserver.StartAhead(t, time.Hour)
	keys := keyFile(t, map[string]string{"sk-requests": "requests 80 1h\ntokens 10000000 day", "sk-tokens": "tokens 8000 1h", "sk-few": "requests 30 1h", "sk-free": ""})
	c := e2e.NewCluster(t, func(int) string { return keys + "store redis " + server.URL("") })
	expect := func(key, prompt string, want int) {
		t.Helper()
		begin := time.Now()
		counts := spend(c.Site, key, prompt, nil)
		t.Logf("%s: %v in %s", key, counts, time.Since(begin))
		if counts["200"] != want && want > 0 || counts[refused] != spenders*refusals || len(counts) != 2 {
			t.Errorf("of %s, %v", key, counts)
		}
	}
	expect("sk-requests", "say:ok", 80)
	expect("sk-tokens", "say:"+strings.Repeat("one two ", 100), 0)
	const one = 400 // the most tokens of an answer with its input
	for node := range c.Nodes {
		all := usage(c.Through(node), "sk-requests")
		requests, tokens := all.Get("keys.0.limits.0.used").Int(), usage(c.Through(node), "sk-tokens").Get("keys.0.limits.0.used").Int()
		if requests != 80 || all.Get("requests").Int()-all.Get("errors").Int() != 80 || all.Get("by_model.0.requests").Int() != 80 || tokens < 8_000-one || tokens > 8_000+one {
			t.Errorf("node %d: %d requests and %d tokens are used; %s", node, requests, tokens, all)
		}
	}

	expect("sk-few", "say:ok", 30)
	kept, running := stored(c.Site, "sk-free", "say:Kept.", nil), stored(c.Through(0), "sk-free", "say:It begins; hang", e2e.Fields{"background": true})
	c.WaitOpen(1)
	server.Do("FLUSHALL")
	for node := range c.Nodes {
		if status, body := call(c.Through(node), http.MethodGet, kept, "sk-free", nil); status != http.StatusNotFound {
			t.Errorf("emptied: %d %s", status, body)
		}
		e2e.WaitFor(t, "the response that is being made", func() bool {
			status, body := call(c.Through(node), http.MethodGet, running, "sk-free", nil)
			return status == http.StatusOK && gjson.Get(body, "status").String() == "in_progress"
		})
	}
	status, cancelled := call(c.Through(1), http.MethodPost, running+"/cancel", "sk-free", nil)
	if status != http.StatusOK || gjson.Get(cancelled, "status").String() != "cancelled" {
		t.Errorf("%d %s", status, cancelled)
	}
	for node := range c.Nodes {
		if status, body := call(c.Through(node), http.MethodGet, running, "sk-free", nil); status != http.StatusOK || body != cancelled {
			t.Errorf("%d %s, cancelled as %s", status, body, cancelled)
		}
	}
	time.Sleep(1100 * time.Millisecond) // after a refusal, a node does not ask for a second
	expect("sk-few", "say:ok", 30)
}
