package store

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// asNode returns a store of the user "node".
func asNode(t *testing.T, server *redisserver.Server, password string, cluster bool) *Redis {
	t.Helper()
	options := redis.UniversalOptions{Addrs: []string{server.Addr}, Username: "node", Password: password, IsClusterMode: cluster}
	if !cluster {
		options.DB = 1
	}
	r := openWith(t, options)
	r.maxBytes = engineRoom
	return r
}

// adminOf returns what [age] needs, for a user who may do anything.
func adminOf(server *redisserver.Server, cluster bool) *Redis {
	if cluster {
		return &Redis{client: redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr}})}
	}
	return &Redis{client: redis.NewClient(&redis.Options{Addr: server.Addr, DB: 1})}
}

// TestACL checks that the user that docs/cluster.md describes may do all that the engine does, with
// one server and with a Cluster, and may neither empty a server nor list its keys.
func TestACL(t *testing.T) {
	for name, start := range map[string]func() *redisserver.Server{
		"server": func() *redisserver.Server { return redisserver.Start(t) }, "cluster": func() *redisserver.Server { return redisserver.Cluster(t) },
	} {
		t.Run(name, func(t *testing.T) {
			server, cluster := start(), name == "cluster"
			server.AddNode(t, "../../docs/cluster.md")
			runContract(t, func(t *testing.T) tested {
				server.Do("FLUSHALL")
				r, admin := asNode(t, server, "secret", cluster), adminOf(server, cluster)
				t.Cleanup(func() { _ = admin.client.Close() })
				return tested{
					Engine: r, age: time.Hour, room: engineRoom, shared: true, later: func(d time.Duration) { age(t, admin, d) },
					other: func(t *testing.T) Engine { return asNode(t, server, "secret", cluster) },
				}
			})
			r := asNode(t, server, "secret", cluster)
			if err := countRequest(t, r, limitedKey(t, "k", quota.Requests, 1)); err != nil {
				t.Error(err)
			}
			server.CheckNothingRefused(t)
			for _, command := range []string{"FLUSHALL", "FLUSHDB", "KEYS *", "CONFIG GET *", "GET other", "SCAN 0", "SHUTDOWN NOSAVE"} {
				args := []any{}
				for _, word := range strings.Fields(command) {
					args = append(args, word)
				}
				if err := r.client.Do(t.Context(), args...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
					t.Errorf("%s: %v", command, err)
				}
			}
		})
	}
}

// TestPasswordChange changes the password as docs/cluster.md describes: while both passwords are
// valid, one node after the other takes the new one, and no use of the store fails.
func TestPasswordChange(t *testing.T) {
	server := redisserver.Start(t)
	server.AddNode(t, "../../docs/cluster.md")
	before := asNode(t, server, "secret", false)
	put := func(r *Redis, n int) {
		t.Helper()
		if err := r.Put(t.Context(), "u", id(n), entry("", "x")); err != nil {
			t.Error(err)
		}
	}
	put(before, 1)
	server.Do("ACL SETUSER node >new")
	after := asNode(t, server, "new", false)
	put(after, 2)
	put(before, 3)
	put(asNode(t, server, "secret", false), 4) // new connections may use the old one, too
	server.Do("ACL SETUSER node <secret")
	put(after, 5)
	if err := asNode(t, server, "secret", false).Put(t.Context(), "u", id(6), entry("", "x")); err == nil {
		t.Error("the old password is valid")
	}
}
