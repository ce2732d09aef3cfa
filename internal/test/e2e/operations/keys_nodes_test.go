package operations

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// used returns what a key has used of its limit of a unit, by /v1/usage.
func used(r *e2e.Running, key, unit string) int64 {
	r.T.Helper()
	var usage struct {
		Keys []struct {
			Limits []struct {
				Unit string
				Used int64
			}
		}
	}
	response := r.Do(http.MethodGet, "/v1/usage", nil, e2e.Bearer(key))
	if text := r.Read(response); json.Unmarshal([]byte(text), &usage) != nil || response.StatusCode != http.StatusOK {
		r.T.Fatal(response.Status, text)
	}
	for _, k := range usage.Keys {
		for _, l := range k.Limits {
			if l.Unit == unit {
				return l.Used
			}
		}
	}
	return -1
}

// storedUse returns what a Caddy has stored for its only key.
func storedUse(r *e2e.Running) (requests, tokens int64) {
	content, err := os.ReadFile(filepath.Join(r.Dir, "caddy", "codex", "keys.json"))
	var stored struct {
		Accounts map[string]map[string][][2]int64
	}
	if err != nil || json.Unmarshal(content, &stored) != nil || len(stored.Accounts) != 1 {
		return 0, 0 // it is being written
	}
	for _, windows := range stored.Accounts {
		for window, parts := range windows {
			for _, part := range parts {
				if strings.HasPrefix(window, "requests") {
					requests += part[1]
				} else {
					tokens += part[1]
				}
			}
		}
	}
	return requests, tokens
}

// TestKeysOverRestarts checks that what a key has used survives an exit and a kill in the
// middle of an answer, and that its limit goes on where it was.
func TestKeysOverRestarts(t *testing.T) {
	file := newKeyFile(t, map[string]string{"sk-k": "requests 5 30d\ntokens 100000 30d"})
	s := e2e.NewUnstarted(t)
	r := s.RunFile(s.Caddyfile("api_keys_file " + file.path))
	r.WaitUp()
	ask := func() int {
		status, _ := statusOf(r.Site, "sk-k", nil)
		return status
	}
	for range 2 {
		if status := ask(); status != http.StatusOK {
			t.Fatal(status)
		}
	}
	tokens := used(r, "sk-k", "tokens")
	r.End()
	r.Start()
	e2e.WaitFor(t, "what was used before the exit", func() bool {
		return used(r, "sk-k", "requests") == 2 && used(r, "sk-k", "tokens") == tokens && tokens > 0
	})

	ctx, leave := context.WithCancel(e2e.Context(t))
	defer leave()
	go r.PostUntil(ctx, e2e.ChatBody("say:"+strings.Repeat("one two ", 400)+"; hang", e2e.Fields{"stream": true}), e2e.Bearer("sk-k"))
	r.WaitOpen(1)
	e2e.WaitFor(t, "what the third request has taken is stored", func() bool {
		requests, taken := storedUse(r)
		return requests == 3 && taken >= tokens+800
	})
	if err := r.Cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = r.Wait()
	r.Start()
	e2e.WaitFor(t, "what was used before the kill", func() bool {
		return used(r, "sk-k", "requests") == 3 && used(r, "sk-k", "tokens") >= tokens+800
	})
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if status := ask(); status != want {
			t.Errorf("request %d: %d", 4+i, status)
		}
	}
}

// TestKeysOfNodes lets clients use up limits at three nodes that share a Redis, each request at a
// random one, at full speed: exactly what the limits allow is let through, and each node shows the
// usage of all.
func TestKeysOfNodes(t *testing.T) {
	server := redisserver.Start(t)
	file := newKeyFile(t, map[string]string{"sk-requests": "requests 150 24h", "sk-tokens": "tokens 20000 24h"})
	base := e2e.NewUnstarted(t)
	var nodes []*e2e.Running
	for range 3 {
		node := base.Node()
		nodes = append(nodes, node.RunFile(node.Caddyfile("realm cluster\napi_keys_file "+file.path+"\nstore redis "+server.URL(""))))
	}
	for _, node := range nodes {
		node.WaitUp()
	}
	// post sends a request to a random node, and returns the status and the code of an error.
	post := func(key, prompt string) (int, string) {
		response, text := nodes[rand.IntN(3)].Post(e2e.ChatBody(prompt, nil), e2e.Bearer(key))
		return response.StatusCode, gjson.Get(text, "error.code").String()
	}
	var all sync.WaitGroup
	var answered, refused atomic.Int64
	for range 8 {
		all.Go(func() {
			for refused.Load() < 30 {
				switch status, code := post("sk-requests", "say:ok"); {
				case status == http.StatusOK:
					answered.Add(1)
				case status == http.StatusTooManyRequests && code == "rate_limit_exceeded":
					refused.Add(1)
				default:
					t.Errorf("%d %s", status, code)
					return
				}
			}
		})
	}
	all.Wait()
	if answered.Load() != 150 {
		t.Errorf("%d of 150 requests were answered", answered.Load())
	}
	const one = 400 // the most tokens of an answer with its input
	for range 8 {
		all.Go(func() {
			for range 60 {
				if status, code := post("sk-tokens", "say:"+strings.Repeat("one two ", 100)); status == http.StatusTooManyRequests {
					return
				} else if status != http.StatusOK {
					t.Errorf("%d %s", status, code)
					return
				}
			}
		})
	}
	all.Wait()
	for _, node := range nodes {
		requests, tokens := used(node, "sk-requests", "requests"), used(node, "sk-tokens", "tokens")
		var all usageBody
		response := node.Do(http.MethodGet, "/v1/usage", nil, e2e.Bearer("sk-requests"))
		if text := node.Read(response); json.Unmarshal([]byte(text), &all) != nil || all.Requests != 150 || all.ByModel[0].Requests != 150 {
			t.Errorf("the usage is %s", text)
		}
		if requests != 150 || tokens < 20_000-one || tokens > 20_000+one {
			t.Errorf("%d requests and %d tokens are used", requests, tokens)
		}
	}
}
