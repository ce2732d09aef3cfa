// Command measure runs Caddy with the real codex and the scripted model, and prints
// the times of turns, and memory. Many short turns show whether memory grows;
// -max-memory=off shows how much it would grow without this option:
//
//	go run ./internal/test/cmd/measure -turns 5000 -deltas 10
//
// With -agents it prints the cost of conversations with tools instead, over HTTP and
// over WebSockets to the model, with and without threads that are kept:
//
//	go run ./internal/test/cmd/measure -agents 5
//
// With -conversations it shows that kept threads take a bounded amount of memory:
//
//	go run ./internal/test/cmd/measure -conversations 5000
//
// With -store it prints how often requests of each kind use Redis, and how many bytes they
// exchange with it. With -nodes it prints the CPU time of so many nodes that share a Redis, and
// how long chats with limits take there and at one node, which has a Redis of its own, beside
// them:
//
//	go run ./internal/test/cmd/measure -store
//	go run ./internal/test/cmd/measure -nodes 20 -keys 5000 -turns 2000
//
// Command bench measures Caddy beside the least program that does the same, and beside a
// Caddy of another commit. It runs on Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// options are the command's flags.
type options struct {
	rig.Programs
	turns, deltas int
	atOnce        int
	maxMemory     string
	log           bool
	agents        int
	conversations int
	store         bool
	nodes, keys   int
	every         time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.turns, "turns", 200, "turns to run")
	flag.IntVar(&o.deltas, "deltas", 1000, "text deltas in each turn")
	flag.IntVar(&o.atOnce, "at-once", 4, "turns at once")
	flag.StringVar(&o.maxMemory, "max-memory", "1GiB", "above it a fresh codex takes over, as in a Caddyfile; off: never")
	flag.IntVar(&o.agents, "agents", 0, "measure so many conversations of agents instead of turns")
	flag.IntVar(&o.conversations, "conversations", 0, "read the memory during so many conversations of two turns instead")
	flag.BoolVar(&o.store, "store", false, "count what requests ask of Redis instead")
	flag.IntVar(&o.nodes, "nodes", 0, "measure so many nodes that share a Redis instead")
	flag.IntVar(&o.keys, "keys", 5000, "keys with limits at those nodes")
	flag.DurationVar(&o.every, "every", 50*time.Millisecond, "pause between two turns at those nodes")
	flag.BoolVar(&o.log, "log", false, "show what Caddy and codex say")
	rig.Main("measure", func(ctx context.Context, programs rig.Programs) error {
		o.Programs = programs
		switch {
		case o.store:
			return measureStore(ctx, o)
		case o.nodes > 0:
			return measureNodes(ctx, o)
		case o.agents > 0:
			return measureAgents(ctx, o)
		case o.conversations > 0:
			return o.withSite(ctx, true, "", func(site *rig.Site, _ *rig.Model) error { return measureGrowth(ctx, o, site) })
		}
		return o.withSite(ctx, false, "", func(site *rig.Site, _ *rig.Model) error { return measureTurns(ctx, o, site) })
	})
}

// withSite starts a Caddy, with a further option in its app_server, and a model, and stops
// both when run has returned.
func (o options) withSite(ctx context.Context, webSockets bool, option string, run func(*rig.Site, *rig.Model) error) error {
	model, err := rig.NewModel(webSockets)
	if err != nil {
		return err
	}
	defer model.Close()
	var log io.Writer
	if o.log {
		log = os.Stderr
	}
	site, err := rig.StartSite(ctx, o.Caddy, rig.SiteOptions{
		Command: o.Codex, Home: model.Home, AppServer: "max_memory " + o.maxMemory + "\n" + option, Log: log,
	})
	if err != nil {
		return err
	}
	return errors.Join(run(site, model), site.Stop())
}
