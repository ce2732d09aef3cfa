package storemodules

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/goleak"

	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEngines checks that a configuration gets the open store of the one before, with the same settings,
// also if that has just ended.
func TestEngines(t *testing.T) {
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	disk := func(size int64) *Disk {
		s := &Disk{Dir: dir, Size: size}
		must.OK(t, s.Provision(caddy.Context{}))
		return s
	}
	first, start, release := Open(disk(1<<20), log)
	must.OK(t, start())
	second, start, releaseSecond := Open(disk(2<<20), log)
	must.OK(t, start())
	if first != second || first.configs != 2 {
		t.Error(first, second)
	}
	release()
	release()
	releaseSecond()
	if third, _, release := Open(disk(1<<20), log); third != first {
		t.Error("requests of the last configuration may still use it, but there is another one")
	} else {
		release()
	}
	first.closeUnused()
	memory, _, release := Open(new(Memory), log)
	release()
	if again, _, release := Open(new(Memory), log); again == memory {
		t.Error("what nobody uses was kept")
	} else {
		release()
	}
	if off, _, _ := Open(new(Off), log); off.Store != nil {
		t.Error("off stores")
	}
}

// TestLateCounts ends the use of a store while Redis is killed, before or after the last turn ends. If
// Redis works again at the end of the store, what the turn has used, and its usage, are counted.
// Otherwise, the log says that they are lost.
func TestLateCounts(t *testing.T) {
	for name, end := range map[string]func(*OpenStore){
		"close": (*OpenStore).closeUnused, "exit": func(*OpenStore) { StoreLateCounts() },
	} {
		for when, turnFirst := range map[string]bool{"before": true, "after": false} {
			t.Run(name+", a turn "+when+" the release", func(t *testing.T) { testLateCounts(t, true, turnFirst, end) })
			t.Run(name+", a turn "+when+" the release, without Redis", func(t *testing.T) { testLateCounts(t, false, turnFirst, end) })
		}
	}
}

// testLateCounts calls end after a turn and a release. If works is true, Redis works again before.
func testLateCounts(t *testing.T, works, turnFirst bool, end func(*OpenStore)) {
	server, k, log := redisserver.Start(t), lateKey(t), new(bytes.Buffer)
	module := lateModule(t, server)
	e, release := startStore(t, module, slog.New(slog.NewTextHandler(log, nil)))
	endTurn := lateTurn(t, e, k)
	server.Kill()
	if turnFirst {
		endTurn()
		release()
	} else {
		release()
		endTurn()
	}
	if works {
		server.Restart()
	}
	end(e)
	want := 1
	if works {
		want = 0
	}
	if got := strings.Count(log.String(), `level=ERROR msg="what Redis could not count is lost`); got != want || got != strings.Count(log.String(), " turns=1 ") {
		t.Error(log)
	}
	if works {
		again := *module
		again.id += "\nanother store"
		other, release := startStore(t, &again, slog.New(slog.DiscardHandler))
		defer release()
		wantCounted(t, other, k)
	}
}

// TestLateCountsReload begins to use a store again after a turn that Redis could not count: it counts
// the turn.
func TestLateCountsReload(t *testing.T) {
	server, k, logger := redisserver.Start(t), lateKey(t), slog.New(slog.DiscardHandler)
	module := lateModule(t, server)
	e, release := startStore(t, module, logger)
	endTurn := lateTurn(t, e, k)
	server.Kill()
	release()
	endTurn()
	server.Restart()
	again, release := startStore(t, module, logger)
	defer release()
	wantCounted(t, again, k)
}

// lateModule returns a module for the store of a server. After as many failed dials as its pool may have
// connections, the client would pause for a second before it dials again; so the pool is large.
func lateModule(t *testing.T, server *redisserver.Server) *Redis {
	t.Helper()
	module := &Redis{URLs: []string{server.URL("") + "?pool_size=1000"}}
	must.OK(t, module.Provision(caddy.Context{}))
	return module
}

// startStore opens and starts a store, which the end of the test closes after its release.
func startStore(t *testing.T, module Module, logger *slog.Logger) (e *OpenStore, release func()) {
	t.Helper()
	e, start, release := Open(module, logger)
	must.OK(t, start())
	t.Cleanup(e.closeUnused)
	return e, release
}

// lateKey returns a key with a limit of tokens.
func lateKey(t *testing.T) *quota.Key {
	t.Helper()
	window, err := quota.ParseWindow("1h")
	must.OK(t, err)
	return &quota.Key{Account: "k", Limits: []quota.Limit{{Unit: quota.Tokens, Max: 10_000, Window: window}}}
}

// lateTurn begins a turn of 20 tokens.
func lateTurn(t *testing.T, e *OpenStore, k *quota.Key) (endTurn func()) {
	t.Helper()
	request, err := e.Limits.Begin(k)
	must.OK(t, err)
	grants, err := request.Acquire(1)
	must.OK(t, err)
	must.OK(t, request.Reserve(t.Context(), grants, 100))
	return func() {
		grants[0].Close(20)
		e.Usage.Add(usage.Record{User: "ann", Model: "m", Status: http.StatusOK})
	}
}

// wantCounted waits until the turn of lateTurn is counted.
func wantCounted(t *testing.T, e *OpenStore, k *quota.Key) {
	t.Helper()
	var account usage.Account
	used := int64(0)
	for deadline := time.Now().Add(30 * time.Second); used != 20 || account.Requests != 1; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d tokens, %+v", used, account)
		}
		if states := e.Limits.States(t.Context(), []*quota.Key{k})[0]; len(states) == 1 {
			used = states[0].Used
		}
		account, _ = e.Usage.Account(t.Context(), "ann", 0)
	}
}

// TestACL checks that the user that docs/cluster.md describes may store and read the usage, and share a key.
func TestACL(t *testing.T) {
	server := redisserver.Start(t)
	server.AddNode(t, "../../docs/cluster.md")
	s := &Redis{URLs: []string{strings.Replace(server.URL("1"), "redis://", "redis://node:secret@", 1)}}
	must.OK(t, s.Provision(caddy.Context{}))
	e, release := startStore(t, s, slog.New(slog.DiscardHandler))
	defer release()
	for range 2 {
		e.Usage.Add(usage.Record{User: "ann", Model: "m", Status: http.StatusOK, Time: time.Now()})
		must.OK(t, e.Usage.Store(t.Context()))
	}
	for _, user := range []string{"ann", usage.Everybody} {
		if account, err := e.Usage.Account(t.Context(), user, 0); err != nil || account.Requests != 2 {
			t.Errorf("%s: %+v, %v", user, account, err)
		}
		if raw, err := e.Usage.Raw(t.Context(), user); err != nil || len(raw.Data) != 2 {
			t.Errorf("%s: %+v, %v", user, raw, err)
		}
	}
	for _, own := range []string{"mine", "another node's"} {
		if key, err := e.ShareKey(t.Context(), own); err != nil || key != "mine" {
			t.Errorf("the key of all is %q, %v", key, err)
		}
	}
	server.CheckNothingRefused(t)
}
