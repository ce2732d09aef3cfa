package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// Limits of keys.
const (
	limitRequests = "requests 1000000 1h\n"
	limitTokens   = "tokens 1000000000 1h\n"
)

// cluster is nodes with the real codex that share a Redis.
type cluster struct {
	dir   string
	model *rig.Model
	redis *redisserver.Server
	sites []*rig.Site
}

// withCluster calls run with so many nodes, then stops them. keys are the options of keys by name.
func withCluster(ctx context.Context, o options, nodes int, keys map[string]string, run func(*cluster) error) (err error) {
	c := new(cluster)
	defer func() { err = errors.Join(err, c.close()) }()
	if c.dir, err = os.MkdirTemp("", "caddy-codex-nodes-"); err != nil {
		return err
	}
	if c.model, err = rig.NewModel(true); err != nil {
		return err
	}
	if c.redis, err = redisserver.Open(c.dir); err != nil {
		return err
	}
	var file strings.Builder
	for key, limits := range keys {
		fmt.Fprintf(&file, "key %s {\nhash sha256:%x\n%s}\n", key, sha256.Sum256([]byte(key)), limits)
	}
	path := filepath.Join(c.dir, "keys")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		return err
	}
	for range nodes {
		site, err := rig.StartSite(ctx, o.Caddy, rig.SiteOptions{
			Command: o.Codex, Home: c.model.Home, Handler: fmt.Sprintf("realm nodes\napi_keys_file %q\nstore redis %s", path, c.redis.URL("")),
		})
		if err != nil {
			return err
		}
		c.sites = append(c.sites, site)
	}
	return run(c)
}

func (c *cluster) close() (err error) {
	for _, site := range c.sites {
		err = errors.Join(err, site.Stop())
	}
	if c.redis != nil {
		c.redis.Kill()
	}
	if c.model != nil {
		c.model.Close()
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// send makes a request at a site with a key, reads the answer, and returns the id in it.
func send(ctx context.Context, site *rig.Site, key, method, path string, body map[string]any) (id string, err error) {
	var made struct{ ID string }
	err = rig.Send(ctx, method, site.URL+path, key, body, func(answer io.Reader) error {
		text, err := io.ReadAll(answer)
		_ = json.Unmarshal(text, &made) // a stream has none
		return err
	})
	return made.ID, err
}

func sendChat(ctx context.Context, site *rig.Site, key, prompt string) error {
	_, err := send(ctx, site, key, http.MethodPost, "/v1/chat/completions", map[string]any{
		"model": "gpt-5", "messages": []any{map[string]any{"role": "user", "content": prompt}},
	})
	return err
}

// idleTime is how long nodes are measured without requests.
const idleTime = 20 * time.Second

// measureNodes sends chats of keys with limits to nodes that share a Redis, and prints the cost.
func measureNodes(ctx context.Context, o options) error {
	keys := make(map[string]string, o.keys)
	for i := range o.keys {
		keys[nameOfKey(i)] = limitRequests + limitTokens
	}
	return withCluster(ctx, o, o.nodes, keys, func(c *cluster) error {
		if _, _, err := c.chats(ctx, o, 10*o.nodes); err != nil { // warm up
			return err
		}
		idle, _, err := c.chats(ctx, o, 0)
		if err != nil {
			return err
		}
		busy, took, err := c.chats(ctx, o, o.nodeTurns)
		if err != nil {
			return err
		}
		fmt.Printf("%d nodes, %d keys with limits, %d chats, one every %s: CPU of a Caddy without requests %.2f %%, with them %.2f %%, memory %d MB; a chat takes %.1f ms, 99 of 100 at most %.1f ms\n",
			o.nodes, o.keys, o.nodeTurns, o.every, idle, busy, rig.Memory(c.sites[0].PID)>>10,
			rig.MS(rig.Percentile(took, 50)), rig.MS(rig.Percentile(took, 99)))
		return nil
	})
}

func nameOfKey(i int) string { return fmt.Sprint("sk-", i) }

// chats sends chats of random keys to random nodes, o.every one, and returns how many percent of a
// core a Caddy needed meanwhile, and how long they took. With none it waits.
func (c *cluster) chats(ctx context.Context, o options, n int) (percent float64, took []time.Duration, err error) {
	begin, before := time.Now(), c.cpu()
	if n == 0 {
		time.Sleep(idleTime)
	}
	took = make([]time.Duration, n)
	var group errgroup.Group
	for i := range n {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * o.every)))
		group.Go(func() error {
			start := time.Now()
			err := sendChat(ctx, c.sites[rand.IntN(len(c.sites))], nameOfKey(rand.IntN(o.keys)), "say:ok")
			took[i] = time.Since(start)
			return err
		})
	}
	err = group.Wait()
	return 100 * float64(c.cpu()-before) / float64(time.Since(begin)) / float64(len(c.sites)), took, err
}

// cpu returns the CPU time of the Caddys, without that of their app-servers.
func (c *cluster) cpu() (sum time.Duration) {
	for _, site := range c.sites {
		sum += rig.CPU(site.PID)
	}
	return sum
}
