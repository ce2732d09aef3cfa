package store

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// TestOneAddressOfCluster uses a cluster of three servers by the address of one of them, as a user of
// the rules in docs/cluster.md: the entries and limits of every user can be used, and nodes hear of
// changes.
func TestOneAddressOfCluster(t *testing.T) {
	servers := redisserver.ClusterOf(t, 3)
	for _, server := range servers {
		server.AddNode(t, "../../docs/cluster.md")
	}
	var nodes []*Redis
	for range 2 {
		nodes = append(nodes, openWith(t, redis.UniversalOptions{Addrs: []string{servers[0].Addr}, Username: "node", Password: "secret"}))
	}
	var all sync.WaitGroup
	for i := range 12 {
		user := fmt.Sprint("user-", i)
		all.Go(func() {
			ctx := t.Context()
			if err := nodes[0].Put(ctx, user, id(1), entry("", user)); err != nil {
				t.Error(user, err)
				return
			}
			if value, err := get(ctx, nodes[1], user, id(1)); err != nil || value != user {
				t.Error(user, err)
			}
			noticed := func() bool {
				changed, began := nodes[1].Watch(id(1)), time.Now()
				if _, err := nodes[0].Append(ctx, user, id(1), &Append{Part: Events, Cancel: true}); err != nil {
					t.Error(user, err)
				}
				<-changed
				return time.Since(began) < WatchTime/2
			}
			for deadline := time.Now().Add(20 * time.Second); !noticed(); { // until node 1 has subscribed
				if time.Now().After(deadline) {
					t.Error(user, "the other node hears nothing")
					return
				}
			}
			k := limitedKey(t, user, quota.Requests, 2)
			for i, r := range []*Redis{nodes[0], nodes[1], nodes[0]} {
				if err := countRequest(t, r, k); (err != nil) != (i == 2) {
					t.Error(user, i, err)
				}
			}
		})
	}
	all.Wait()
	for _, r := range nodes {
		if r.Fails() {
			t.Error("it does not work")
		}
	}
}
