package storemodules

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// TestUsageACL checks that the user that docs/cluster.md describes may store and read the usage.
func TestUsageACL(t *testing.T) {
	server := redisserver.Start(t)
	server.AddNode(t, "../../docs/cluster.md")
	s := &Redis{URLs: []string{strings.Replace(server.URL("1"), "redis://", "redis://node:secret@", 1)}}
	must.OK(t, s.Provision(caddy.Context{}))
	pool, key := &openStorePool{byKey: make(map[string]*OpenStore)}, openStoreKey(s)
	e, start, release := pool.open(s, slog.New(slog.DiscardHandler))
	must.OK(t, start())
	t.Cleanup(func() {
		release()
		pool.close(key, e)
	})
	for range 2 {
		e.Usage.Add(usage.Record{User: "ann", Model: "m", Status: http.StatusOK, Time: time.Now()})
		must.OK(t, e.Usage.Store(t.Context()))
	}
	for _, user := range []string{"ann", usage.Everybody} {
		if account, err := e.Usage.Account(t.Context(), user); err != nil || account.Requests != 2 {
			t.Errorf("%s: %+v, %v", user, account, err)
		}
		if raw, err := e.Usage.Raw(t.Context(), user); err != nil || len(raw.Data) != 2 {
			t.Errorf("%s: %+v, %v", user, raw, err)
		}
	}
	server.CheckNothingRefused(t)
}
