package operations

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
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
