package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// idleTime is how long nodes are measured without requests.
const idleTime = 20 * time.Second

// measureNodes sends chats of keys with limits to nodes that share a Redis, and as many to one node
// with a Redis of its own, in turn, and prints what they cost the nodes and how long they take.
func measureNodes(ctx context.Context, o options) (err error) {
	model, err := rig.NewModel(true)
	if err != nil {
		return err
	}
	defer model.Close()
	keys := make(map[string]string, o.keys)
	for i := range o.keys {
		keys[nameOfKey(i)] = limitRequests + limitTokens
	}
	var clusters []*cluster
	defer func() {
		for _, c := range clusters {
			err = errors.Join(err, c.close())
		}
	}()
	for _, nodes := range []int{1, o.nodes} {
		c, err := newCluster(ctx, o, model, nodes, keys)
		if err != nil {
			return err
		}
		clusters = append(clusters, c)
	}
	if _, _, err := sendChats(ctx, o, clusters, 10*o.nodes); err != nil { // warm up
		return err
	}
	idle, _, err := sendChats(ctx, o, clusters, 0)
	if err != nil {
		return err
	}
	busy, took, err := sendChats(ctx, o, clusters, o.turns)
	if err != nil {
		return err
	}
	fmt.Printf("%d keys with limits, %d chats, one every %s:\n", o.keys, o.turns, o.every)
	for i, c := range clusters {
		fmt.Printf("%2d nodes: CPU of a Caddy without requests %.2f %%, with them %.2f %%, memory %d MB; a chat takes %.1f ms, 99 of 100 at most %.1f ms\n", len(c.sites),
			idle[i], busy[i], rig.Memory(c.sites[0].PID, rig.Resident)>>10, rig.MS(rig.Percentile(took[i], 50)), rig.MS(rig.Percentile(took[i], 99)))
	}
	return nil
}

func nameOfKey(i int) string { return fmt.Sprint("sk-", i) }

// sendChats sends chats of random keys to random nodes of the clusters in turn, o.every one, and
// returns how many percent of a core a Caddy of each needed meanwhile, and how long they took. With
// none it waits.
func sendChats(ctx context.Context, o options, clusters []*cluster, chats int) (percent []float64, took [][]time.Duration, err error) {
	begin, before := time.Now(), cpuOf(clusters)
	if chats == 0 {
		time.Sleep(idleTime)
	}
	took = make([][]time.Duration, len(clusters))
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for i := range chats {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * o.every)))
		sites := clusters[i%len(clusters)].sites
		group.Go(func() error {
			start := time.Now()
			_, err := send(ctx, sites[rand.IntN(len(sites))], nameOfKey(rand.IntN(o.keys)), http.MethodPost, "/v1/chat/completions", map[string]any{
				"model": "gpt-5", "messages": []any{map[string]any{"role": "user", "content": "say:ok"}},
			})
			mu.Lock()
			defer mu.Unlock()
			took[i%len(clusters)] = append(took[i%len(clusters)], time.Since(start))
			return err
		})
	}
	err = group.Wait()
	for i, cpu := range cpuOf(clusters) {
		percent = append(percent, 100*float64(cpu-before[i])/float64(time.Since(begin))/float64(len(clusters[i].sites)))
	}
	return percent, took, err
}

// cpuOf returns the CPU time of the Caddys of each cluster, without that of their app-servers.
func cpuOf(clusters []*cluster) (all []time.Duration) {
	for _, c := range clusters {
		sum := time.Duration(0)
		for _, site := range c.sites {
			sum += rig.CPU(site.PID)
		}
		all = append(all, sum)
	}
	return all
}
