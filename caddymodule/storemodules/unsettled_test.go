package storemodules

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// TestUnsettled ends the use of a store while Redis is killed, before or after the last turn ends:
// what the turn had used, and its usage, are counted by the next start, once.
func TestUnsettled(t *testing.T) {
	for name, end := range map[string]func(p *openStorePool, key string, release, turn func()){
		"before the release": func(p *openStorePool, key string, release, turn func()) {
			turn()
			release()
			p.close(key, p.byKey[key])
		},
		"before the store is closed": func(p *openStorePool, key string, release, turn func()) {
			release()
			turn()
			p.close(key, p.byKey[key])
		},
		"before the exit": func(p *openStorePool, _ string, release, turn func()) {
			release()
			turn()
			p.storeLateCounts()
		},
	} {
		t.Run(name, func(t *testing.T) { testUnsettled(t, end) })
	}
}

// testUnsettled starts a turn, and calls end, which calls release and turn: the end of the turn.
func testUnsettled(t *testing.T, end func(p *openStorePool, key string, release, turn func())) {
	t.Setenv("XDG_DATA_HOME", t.TempDir()) // where the counts are saved
	server := redisserver.Start(t)
	logger := slog.New(slog.DiscardHandler)
	// process returns an open store as a process has it that starts.
	process := func() (_ *OpenStore, exit func(turn func())) {
		s := &Redis{URLs: []string{server.URL("")}}
		if err := s.Provision(caddy.Context{}); err != nil {
			t.Fatal(err)
		}
		pool, key := &openStorePool{byKey: make(map[string]*OpenStore)}, openStoreKey(s)
		e, start, release := pool.open(s, logger)
		if err := start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pool.close(key, e) })
		return e, func(turn func()) { end(pool, key, release, turn) }
	}
	noTurn := func() {}
	window, err := quota.ParseWindow("1h")
	if err != nil {
		t.Fatal(err)
	}
	k := &quota.Key{Account: "k", Limits: []quota.Limit{{Unit: quota.Tokens, Max: 10_000, Window: window}}}
	first, exit := process()
	limits := first.Store.(*responsestore.Redis).Limits()
	request, err := limits.Begin(k)
	if err != nil {
		t.Fatal(err)
	}
	grants, err := request.Acquire(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := request.Reserve(t.Context(), grants, 100); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	exit(func() {
		grants[0].Close(20)
		first.Usage.Add(gateway.Record{User: "ann", Model: "m", Status: http.StatusOK})
	})
	files := func() []string {
		found, err := filepath.Glob(filepath.Join(caddy.AppDataDir(), "codex", "unsettled-*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	saved := files()
	if len(saved) != 1 {
		t.Fatal(saved)
	}
	if info, err := os.Stat(saved[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	_, exit = process() // Redis still does not work
	exit(noTurn)
	if len(files()) != 1 {
		t.Fatal(files())
	}
	server.Restart()
	for range 2 { // the second one finds nothing to count
		e, exit := process()
		var account usage.Account
		used := int64(0)
		for deadline := time.Now().Add(30 * time.Second); used != 20 || account.Requests != 1; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d tokens, %+v", used, account)
			}
			if states := e.Store.(*responsestore.Redis).Limits().States(t.Context(), []*quota.Key{k})[0]; len(states) == 1 {
				used = states[0].Used
			}
			account, _ = e.Usage.Account(t.Context(), "ann")
		}
		exit(noTurn)
		if len(files()) > 0 {
			t.Error(files())
		}
	}
}
