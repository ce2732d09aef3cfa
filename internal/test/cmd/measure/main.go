// Command measure runs a Caddy with this module, the real codex and the
// scripted model, and prints what turns cost: the CPU time of Caddy beside that
// of codex, the times of a turn, and memory. Many short turns show whether
// memory grows, and with -unload=false and -max-memory=off what it would be
// without what keeps it bounded:
//
//	go run ./internal/test/cmd/measure -turns 5000 -deltas 10
//
// With -agents it prints what conversations with tools cost instead: over HTTP and
// over WebSockets to the model, with conversations that go on in their threads and
// without:
//
//	go run ./internal/test/cmd/measure -agents 5
//
// It is a harness for whole processes, on Linux.
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
	flag.BoolVar(&o.log, "log", false, "show what Caddy and codex say")
	rig.Main("measure", func(ctx context.Context, programs rig.Programs) error {
		o.Programs = programs
		if o.agents > 0 {
			return measureAgents(ctx, o)
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
	caddy, url, err := startCaddy(ctx, o, dir, "")
	if err != nil {
		return err
	}
	beside := func() []trickled { return trickle(ctx, url, o.trickle) }
	return errors.Join(measure(ctx, o, overHTTP(url), caddy.PID, beside), caddy.Stop(exitWait))
}

// measure runs the turns on the codex that the process parent has started, with
// the clients beside them that trickle, if there are any.
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

// exitWait bounds the end of Caddy.
const exitWait = 10 * time.Second

// startCaddy starts a Caddy, with another option in its app_server, and waits until
// it takes turns.
func startCaddy(ctx context.Context, o options, dir, option string) (*rig.Caddy, string, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, "", err
	}
	config := fmt.Sprintf("{\n\tadmin off\n\tpersist_config off\n\tauto_https off\n}\nhttp://%s {\n\tcodex {\n\t\tapp_server %q app-server {\n\t\t\thome %q\n\t\t\tmax_memory %s\n\t\t\t%s\n\t\t}\n\t}\n}\n", addr, o.Codex, dir, o.maxMemory, option)
	var log io.Writer
	if o.log {
		log = os.Stderr
	}
	caddy, err := rig.Start(o.Caddy, config, log)
	if err != nil {
		return nil, "", err
	}
	url := "http://" + addr
	if err := rig.WaitReady(ctx, url); err != nil {
		return nil, "", errors.Join(err, caddy.Stop(exitWait))
	}
	return caddy, url, nil
}
