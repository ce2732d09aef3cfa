package operations

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// newNode starts the built Caddy with a file of keys and a storage that nodes may share.
func newNode(t *testing.T, file *keyFile, storage string) *e2e.Running {
	t.Helper()
	s := e2e.NewUnstarted(t)
	config := strings.Replace(s.Caddyfile("api_keys_file "+file.path), "{\n", "{\nstorage file_system "+storage+"\n", 1)
	r := s.RunFile(config)
	r.WaitUp()
	return r
}

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

// storedUse returns what the only node with a storage has stored for its only key.
func storedUse(t *testing.T, storage string) (requests, tokens int64) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(storage, "codex", "keys", "*.json"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	content, err := os.ReadFile(files[0])
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
	storage := t.TempDir()
	r := newNode(t, file, storage)
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
		requests, taken := storedUse(t, storage)
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

// TestKeysOfTwoNodes checks that two nodes with one storage share the limits of a key.
func TestKeysOfTwoNodes(t *testing.T) {
	file := newKeyFile(t, map[string]string{"sk-k": "requests 10 24h\ntokens 100000 24h"})
	storage := t.TempDir()
	a, b := newNode(t, file, storage), newNode(t, file, storage)
	for range 6 {
		if status, text := statusOf(a.Site, "sk-k", nil); status != http.StatusOK {
			t.Fatal(status, text)
		}
	}
	tokens := used(a, "sk-k", "tokens")
	e2e.WaitFor(t, "the other node knows of it", func() bool { return used(b, "sk-k", "requests") == 6 && used(b, "sk-k", "tokens") == tokens })
	answered := 0
	for range 6 {
		if status, _ := statusOf(b.Site, "sk-k", nil); status == http.StatusOK {
			answered++
		}
	}
	if answered != 4 {
		t.Errorf("the other node has answered %d of 4", answered)
	}
	e2e.WaitFor(t, "the first node knows of that", func() bool { return used(a, "sk-k", "requests") == 10 })
	if status, text := statusOf(a.Site, "sk-k", nil); status != http.StatusTooManyRequests {
		t.Error(status, text)
	}
	b.End()
	a.End()
	a.Start()
	e2e.WaitFor(t, "what both have counted", func() bool { return used(a, "sk-k", "requests") == 10 })
	if _, text := statusOf(a.Site, "sk-k", nil); !strings.Contains(text, fmt.Sprint("used ", 10)) {
		t.Error(text)
	}
}
