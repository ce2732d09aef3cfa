// Command measure runs Caddy with the real codex and the scripted model, and prints
// the CPU time of Caddy and codex, the times of turns, and memory. Many short turns
// show whether memory grows; -unload=false and -max-memory=off show how much it would
// grow without these options:
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
// Command bench measures Caddy beside the least program that does the same.
// With -before it compares what codex costs behind two Caddies, such as one built of an
// earlier commit and a new one, over HTTP and over WebSockets to the model:
//
//	go run ./internal/test/cmd/measure -before /tmp/caddy-before
//
// It runs on Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// options are the command's flags.
type options struct {
	rig.Programs
	turns, deltas int
	atOnce        int
	trickle       int
	unload        bool
	maxMemory     string
	log           bool
	agents        int
	before        string
	conversations int
}

func main() {
	var o options
	flag.IntVar(&o.turns, "turns", 200, "turns to run")
	flag.IntVar(&o.deltas, "deltas", 1000, "text deltas in each turn")
	flag.IntVar(&o.atOnce, "at-once", 4, "turns at once")
	flag.IntVar(&o.trickle, "trickle", 0, "clients beside the turns that send 31 MiB each and then a byte a second")
	flag.BoolVar(&o.unload, "unload", true, "unload threads, as Caddy does; false: run codex without Caddy and leave them to it")
	flag.StringVar(&o.maxMemory, "max-memory", "1GiB", "above it a fresh codex takes over, as in a Caddyfile; off: never")
	flag.IntVar(&o.agents, "agents", 0, "measure so many conversations of agents instead of turns")
	flag.IntVar(&o.conversations, "conversations", 0, "read the memory during so many conversations of two turns instead")
	flag.StringVar(&o.before, "before", "", "compare with this Caddy instead")
	flag.BoolVar(&o.log, "log", false, "show what Caddy and codex say")
	rig.Main("measure", func(ctx context.Context, programs rig.Programs) error {
		o.Programs = programs
		if o.before != "" {
			return measurePair(ctx, o)
		}
		switch {
		case o.agents > 0:
			return measureAgents(ctx, o)
		case o.conversations > 0:
			return measureGrowth(ctx, o)
		}
		return run(ctx, o)
	})
}

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "caddy-codex-measure-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	model, err := scriptedmodel.Listen(scriptedmodel.Options{})
	if err != nil {
		return err
	}
	defer model.Close()
	if err := codexhome.Write(dir, model.URL, codexhome.Options{}); err != nil {
		return err
	}
	if !o.unload {
		keeper, err := keepThreads(o, dir)
		if err != nil {
			return err
		}
		defer keeper.process.Stop()
		return measure(ctx, o, keeper.turn, os.Getpid(), nil)
	}
	caddy, site, err := startCaddy(ctx, o, dir, "")
	if err != nil {
		return err
	}
	beside := func() []trickled { return trickle(ctx, site.url, o.trickle) }
	return errors.Join(measure(ctx, o, overHTTP(site.url), caddy.PID, beside), caddy.Stop(exitWait))
}

// measure runs the turns on the codex below the process parent, with trickling
// clients beside them, if there are any.
func measure(ctx context.Context, o options, run runner, parent int, beside func() []trickled) error {
	if _, err := load(ctx, o, run, o.atOnce); err != nil { // warm up
		return err
	}
	watch := watch(parent)
	var others []trickled
	var all sync.WaitGroup
	if o.trickle > 0 && beside != nil {
		all.Go(func() { others = beside() })
	}
	result, err := load(ctx, o, run, o.turns)
	all.Wait()
	before, after := watch.end()
	if err != nil {
		return err
	}
	report(o, result, before, after)
	if len(others) > 0 {
		reportTrickled(others)
	}
	return nil
}

// exitWait bounds the exit of Caddy.
const exitWait = 10 * time.Second

// site is where a Caddy serves.
type site struct {
	url, admin string // of the API and of the admin API
}

// startCaddy starts Caddy, with a further option in its app_server, and waits until it
// is ready.
func startCaddy(ctx context.Context, o options, dir, option string) (*rig.Caddy, *site, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, nil, err
	}
	admin, err := rig.FreeAddr()
	if err != nil {
		return nil, nil, err
	}
	config := fmt.Sprintf("{\n\tadmin %s\n\tpersist_config off\n\tauto_https off\n}\nhttp://%s {\n\tcodex {\n\t\tapp_server %q app-server {\n\t\t\thome %q\n\t\t\tmax_memory %s\n\t\t\t%s\n\t\t}\n\t}\n}\n", admin, addr, o.Codex, dir, o.maxMemory, option)
	var log io.Writer
	if o.log {
		log = os.Stderr
	}
	caddy, err := rig.Start(o.Caddy, config, log)
	if err != nil {
		return nil, nil, err
	}
	s := &site{url: "http://" + addr, admin: "http://" + admin}
	if err := rig.WaitReady(ctx, s.url); err != nil {
		return nil, nil, errors.Join(err, caddy.Stop(exitWait))
	}
	return caddy, s, nil
}
