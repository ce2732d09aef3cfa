package e2e

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
)

// newNode starts the built Caddy with a file of keys and a storage that nodes may share.
func newNode(t *testing.T, file *keyFile, storage string) *running {
	t.Helper()
	s := newUnstarted(t)
	config := strings.Replace(s.caddyfile("api_keys_file "+file.path), "{\n", "{\nstorage file_system "+storage+"\n", 1)
	r := s.runFile(config)
	r.waitUp()
	return r
}

// used returns what a key has used of its limit of a unit, by /v1/usage.
func (r *running) used(key, unit string) int64 {
	r.t.Helper()
	var usage struct {
		Keys []struct {
			Limits []struct {
				Unit string
				Used int64
			}
		}
	}
	response := r.do(http.MethodGet, "/v1/usage", nil, bearer(key))
	if text := r.read(response); json.Unmarshal([]byte(text), &usage) != nil || response.StatusCode != http.StatusOK {
		r.t.Fatal(response.Status, text)
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
		status, _ := r.statusOf("sk-k", nil)
		return status
	}
	for range 2 {
		if status := ask(); status != http.StatusOK {
			t.Fatal(status)
		}
	}
	tokens := r.used("sk-k", "tokens")
	r.end()
	r.start()
	waitFor(t, "what was used before the exit", func() bool {
		return r.used("sk-k", "requests") == 2 && r.used("sk-k", "tokens") == tokens && tokens > 0
	})

	ctx, leave := context.WithCancel(testContext(t))
	defer leave()
	go r.postUntil(ctx, chatBody("say:"+strings.Repeat("one two ", 400)+"; hang", fields{"stream": true}), bearer("sk-k"))
	r.waitOpen(1)
	waitFor(t, "what the third request has taken is stored", func() bool {
		requests, taken := storedUse(t, storage)
		return requests == 3 && taken >= tokens+800
	})
	if err := r.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = r.cmd.Wait()
	r.start()
	waitFor(t, "what was used before the kill", func() bool {
		return r.used("sk-k", "requests") == 3 && r.used("sk-k", "tokens") >= tokens+800
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
		if status, text := a.statusOf("sk-k", nil); status != http.StatusOK {
			t.Fatal(status, text)
		}
	}
	tokens := a.used("sk-k", "tokens")
	waitFor(t, "the other node knows of it", func() bool { return b.used("sk-k", "requests") == 6 && b.used("sk-k", "tokens") == tokens })
	answered := 0
	for range 6 {
		if status, _ := b.statusOf("sk-k", nil); status == http.StatusOK {
			answered++
		}
	}
	if answered != 4 {
		t.Errorf("the other node has answered %d of 4", answered)
	}
	waitFor(t, "the first node knows of that", func() bool { return a.used("sk-k", "requests") == 10 })
	if status, text := a.statusOf("sk-k", nil); status != http.StatusTooManyRequests {
		t.Error(status, text)
	}
	b.end()
	a.end()
	a.start()
	waitFor(t, "what both have counted", func() bool { return a.used("sk-k", "requests") == 10 })
	if _, text := a.statusOf("sk-k", nil); !strings.Contains(text, fmt.Sprint("used ", 10)) {
		t.Error(text)
	}
}
