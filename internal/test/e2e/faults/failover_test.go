package faults

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// TestNodesFailover kills the master while clients use up a limit of three nodes: what its replica
// has counts. Nothing stored is a 404 meanwhile, and keys without limits are answered.
func TestNodesFailover(t *testing.T) {
	master := redisserver.Start(t)
	master.Replica(t)
	sentinel := master.Sentinel(t, time.Minute)
	const limit = 100
	keys := keyFile(t, map[string]string{"sk-limited": fmt.Sprintf("requests %d 1h", limit), "sk-free": ""})
	c := e2e.NewCluster(t, func(int) string {
		return keys + "store redis " + sentinel.URL("") + " {\nmaster main\n}"
	})
	kept, running := stored(c.Site, "sk-free", "say:Kept.", nil), stored(c.Through(0), "sk-free", "say:It begins; hang", e2e.Fields{"background": true})
	c.WaitOpen(1)
	var others sync.WaitGroup
	over := make(chan struct{})
	each := func(do func()) {
		others.Go(func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(50 * time.Millisecond):
					do()
				}
			}
		})
	}
	each(func() {
		if answer, _, err := askAs(c.Site, "sk-free", "say:ok"); answer != "200" {
			t.Errorf("without limits: %s, %v", answer, err)
		}
	})
	each(func() {
		if status, body := call(c.Site, http.MethodGet, kept, "sk-free", nil); status != http.StatusOK && status != http.StatusServiceUnavailable {
			t.Errorf("what is stored: %d %s", status, body)
		}
	})
	var mu sync.Mutex
	var killed, failed, again time.Time
	answered := 0
	counts := spend(c.Site, "sk-limited", "say:ok", func(answer string) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		switch {
		case answer != "200":
			if failed = now; answer != refused {
				again = time.Time{}
			}
		case !failed.IsZero() && again.IsZero():
			again = now
		}
		if answer == "200" {
			answered++
		}
		if answered == limit/3 && killed.IsZero() {
			killed = now
			master.KillReplicated(t, sentinel)
		}
	})
	close(over)
	others.Wait()
	t.Logf("%v; after the failover the first request was answered within %s", counts, again.Sub(killed))
	// At most the requests of the moment are lost, or are counted without an answer.
	if n := counts["200"]; n < limit-2*spenders || n > limit+2*spenders || counts[refused] != spenders*refusals {
		t.Errorf("%v", counts)
	}
	for answer := range counts {
		if answer != "200" && answer != refused && answer != "503 key_limits_unavailable" {
			t.Errorf("%v", counts)
		}
	}
	status, cancelled := call(c.Through(1), http.MethodPost, running+"/cancel", "sk-free", nil)
	if status != http.StatusOK || gjson.Get(cancelled, "status").String() != "cancelled" {
		t.Errorf("%d %s", status, cancelled)
	}
	for node := range c.Nodes {
		for path, want := range map[string]string{kept: "Kept.", running: `"cancelled"`} {
			if status, body := call(c.Through(node), http.MethodGet, path, "sk-free", nil); status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("node %d: %d %s", node, status, body)
			}
		}
	}
}
