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

// TestNodeCutOff cuts one of three nodes off from Redis, then slows its network down, then lets Redis
// become full: only that node cannot use what is stored, and all nodes go on with what they can.
func TestNodeCutOff(t *testing.T) {
	server := redisserver.StartAhead(t, time.Hour)
	proxy := server.NewProxy(t)
	keys := keyFile(t, map[string]string{"sk-limited": "requests 1000 1h\ntokens 1000000 1h", "sk-free": ""})
	c := e2e.NewCluster(t, func(node int) string {
		addr := server.Addr
		if node == 0 {
			addr = proxy.Addr
		}
		return keys + "store redis redis://" + addr
	})
	kept := stored(c.Site, "sk-free", "say:Kept.", nil)
	// expect checks what each node answers: chats of keys with limits and without, what is stored.
	expect := func(what string, node int, limited, free string, read int) {
		t.Helper()
		for key, want := range map[string]string{"sk-limited": limited, "sk-free": free} {
			if answer, _, err := askAs(c.Through(node), key, "say:ok"); err != nil || answer != want {
				t.Errorf("%s, node %d, %s: %s, %v", what, node, key, answer, err)
			}
		}
		if status, body := call(c.Through(node), http.MethodGet, kept, "sk-free", nil); status != read {
			t.Errorf("%s, node %d: %d %s", what, node, status, body)
		}
	}
	told := func(node int) string {
		_, text := c.Through(node).Get("/readyz")
		return gjson.Get(text, "store").String()
	}
	proxy.Cut()
	e2e.WaitFor(t, "/readyz to say it", func() bool { return told(0) == "unavailable" })
	expect("cut off", 0, "503 key_limits_unavailable", "200", http.StatusServiceUnavailable)
	for node := 1; node < 3; node++ {
		expect("another is cut off", node, "200", "200", http.StatusOK)
		if text := told(node); text != "" {
			t.Errorf("node %d: %q", node, text)
		}
	}
	proxy.Mend()
	e2e.WaitFor(t, "the end of the outage", func() bool { return told(0) == "" })
	expect("mended", 0, "200", "200", http.StatusOK)
	proxy.Slow(2 * time.Second)
	expect("another is slow", 1, "200", "200", http.StatusOK)
	begin := time.Now()
	status, body := call(c.Through(0), http.MethodGet, kept, "sk-free", nil)
	if took := time.Since(begin); status == http.StatusOK && took < 2*time.Second || status != http.StatusOK && status != http.StatusServiceUnavailable {
		t.Errorf("slow: %d %s after %s", status, body, took)
	}
	proxy.Mend()
	e2e.WaitFor(t, "the end of the outage", func() bool { return told(0) == "" })

	server.Do("CONFIG SET maxmemory-policy noeviction")
	server.Do("CONFIG SET maxmemory 1mb")
	e2e.WaitFor(t, "Redis to be full", func() bool { return strings.HasPrefix(server.Do("SET fill y"), "-OOM") })
	for node := range c.Nodes {
		expect("full", node, "200", "200", http.StatusOK)
		fresh := stored(c.Through(node), "sk-free", "say:Fresh.", nil)
		if status, body := call(c.Through(node), http.MethodGet, fresh, "sk-free", nil); status == http.StatusOK {
			t.Errorf("full: %d %s", status, body)
		}
	}
	server.Do("CONFIG SET maxmemory 0")
	fresh := stored(c.Through(0), "sk-free", "say:Fresh.", nil)
	for node := range c.Nodes {
		if status, body := call(c.Through(node), http.MethodGet, fresh, "sk-free", nil); status != http.StatusOK {
			t.Errorf("after that: %d %s", status, body)
		}
		if requests := usage(c.Through(node), "sk-limited").Get(`keys.0.limits.#(unit=="requests").used`).Int(); requests < 7 || requests > 8 { // one may be counted that was cut off
			t.Errorf("%d requests are counted", requests)
		}
	}
}
