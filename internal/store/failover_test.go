package store

import (
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// limitedKey returns a key that may use so many of a unit in an hour.
func limitedKey(t *testing.T, account string, unit quota.Unit, most int64) *quota.Key {
	window, err := quota.ParseWindow("1h")
	must.OK(t, err)
	return &quota.Key{Account: account, Limits: []quota.Limit{{Unit: unit, Max: most, Window: window}}}
}

// countRequest counts a request of a key.
func countRequest(t *testing.T, r *Redis, k *quota.Key) error {
	request, err := r.Limits().Begin(k)
	if err != nil {
		return err
	}
	return request.Reserve(t.Context(), nil, 0)
}

// TestFailover kills the master while three nodes use up a limit, once its replica has all that was
// answered. The replica replaces it, and all of that counts.
func TestFailover(t *testing.T) {
	master := redisserver.Start(t)
	master.Replica(t)
	sentinel := master.Sentinel(t, time.Minute)
	const limit, clients = 600, 9
	k := limitedKey(t, "k", quota.Requests, limit)
	var nodes []*Redis
	for range 3 {
		nodes = append(nodes, openWith(t, redis.UniversalOptions{Addrs: []string{sentinel.Addr}, MasterName: "main", DialTimeout: 3 * time.Second, ReadTimeout: 3 * time.Second}))
	}
	must.OK(t, nodes[0].Put(t.Context(), "ann", id(1), entry("", "kept")))
	var answered, failed, refused atomic.Int64
	var all sync.WaitGroup
	failover := sync.OnceFunc(func() { master.KillReplicated(t, sentinel) })
	for client := range clients {
		all.Go(func() {
			for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); {
				err := countRequest(t, nodes[client%3], k)
				switch {
				case err == nil:
					answered.Add(1)
				case errors.Is(err, quota.ErrUnavailable):
					failed.Add(1)
					time.Sleep(20 * time.Millisecond)
				default:
					refused.Add(1)
					return
				}
				if answered.Load() >= limit/3 {
					failover()
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d were answered, %d failed meanwhile, %d were refused", answered.Load(), failed.Load(), refused.Load())
	if n := answered.Load(); n < limit-2*clients || n > limit+2*clients || refused.Load() != clients || failed.Load() == 0 {
		t.Errorf("%d of %d were answered, %d failed, %d were refused", n, limit, failed.Load(), refused.Load())
	}
	_, err := get(t.Context(), nodes[1], "ann", id(1))
	must.OK(t, err)
}

// TestPlannedFailover replaces the master as docs/cluster.md describes while responses are stored:
// it has two replicas, and writing pauses until they have all and the new master is known. Nothing
// that was stored is lost.
func TestPlannedFailover(t *testing.T) {
	master := redisserver.Start(t)
	master.Replica(t)
	master.Replica(t)
	sentinel := master.Sentinel(t, time.Minute)
	r := openWith(t, redis.UniversalOptions{Addrs: []string{sentinel.Addr}, MasterName: "main", ReadTimeout: 3 * time.Second})
	var mu sync.Mutex
	var stored []string
	refused := 0
	over := make(chan struct{})
	var all sync.WaitGroup
	for client := range 4 {
		all.Go(func() {
			for n := client; ; n += 4 {
				select {
				case <-over:
					return
				case <-time.After(50 * time.Millisecond):
				}
				err := r.Put(t.Context(), "ann", id(n), entry("", "x"))
				mu.Lock()
				if err == nil {
					stored = append(stored, id(n))
				} else {
					refused++
				}
				mu.Unlock()
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(stored)
	}
	must.Happen(t, "some responses", func() bool { return count() > 20 })
	_, port, _ := net.SplitHostPort(master.Addr)
	if answer := master.Do("CLIENT PAUSE 60000 WRITE"); !strings.HasPrefix(answer, "+OK") {
		t.Fatal(answer)
	}
	must.Happen(t, "the replicas to have all", func() bool { return master.Replicated() == 2 })
	must.Happen(t, "the failover", func() bool { return strings.HasPrefix(sentinel.Do("SENTINEL FAILOVER main"), "+OK") })
	must.Happen(t, "the new master", func() bool { return !strings.Contains(sentinel.Do("SENTINEL GET-MASTER-ADDR-BY-NAME main"), port) })
	must.Happen(t, "the old master to be a replica", func() bool { return strings.Contains(master.Do("ROLE"), "slave") })
	before := count()
	must.Happen(t, "more responses", func() bool { return count() > before+20 })
	close(over)
	all.Wait()
	t.Logf("%d were stored, %d were refused", len(stored), refused)
	for _, id := range stored {
		if _, err := get(t.Context(), r, "ann", id); err != nil {
			t.Fatal(id, err)
		}
	}
}
