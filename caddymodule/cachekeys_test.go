package caddymodule

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/google/uuid"

	"github.com/caddy-codex/caddy-codex/internal/conversation"
)

// keysFile returns the file with the cache keys of a member's login.
func keysFile(t *testing.T, m *member) string {
	t.Helper()
	id, err := caddy.InstanceID()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(caddy.DefaultStorage.Path, "codex", "conversations", id.String()+"-"+m.storedAs()+".json")
}

// TestCacheKeysOverRestarts: the cache keys of conversations are stored when the last
// configuration with their app_server ends, for all of its processes together, and restored
// with the next one, also of another release. With conversations off they are forgotten.
func TestCacheKeysOverRestarts(t *testing.T) {
	chain, err := conversation.NewChain(conversation.Identity{User: "ann"}, []json.RawMessage{
		json.RawMessage(`{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}`),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	handler := func(off bool) *Handler {
		server := fakeServer(t, t.Name())
		server.Processes, server.Conversations.Off = 2, off
		return &Handler{AppServers: []*AppServer{server}}
	}
	begin := func(off bool, version string) (c *configuration, m *member) {
		c = provision(t, handler(off))
		for _, m = range c.app.members {
			m.cfg.Client.Version = version
		}
		c.start(t)
		return c, m
	}
	key := uuid.NewString()
	check := func(m *member, want string) {
		t.Helper()
		if got := m.current().login.memory.Key(chain); got != want {
			t.Errorf("the key is %q, not %q", got, want)
		}
	}

	c, m := begin(false, "1")
	m.current().login.memory.RememberKey(chain, key)
	file := keysFile(t, m)
	c.cleanup()
	stopping.Wait()
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the keys are not stored for Caddy's user alone: %v, %v", info, err)
	}
	c, m = begin(false, "2")
	check(m, key)
	off, _ := begin(true, "2") // a reload
	check(m, "")
	c.cleanup()
	off.cleanup()
	stopping.Wait()
	c, m = begin(false, "2")
	check(m, "")
	c.cleanup()
}
