// Command bench measures what Caddy costs with this module: CPU, latency, memory and
// allocations, each beside the floor, the least Go program that does the same (floor.go).
// Both run in one process each, before an app-server that spends as little as possible
// (double.go), and their clients check every chunk. All loads are run in turn on both,
// repeatedly, so that a busy machine slows both alike; the medians of the figures and of
// the ratios are printed, with the least and the most:
//
//	go run ./internal/test/cmd/bench
//
// Then it measures the real codex with the scripted model behind Caddy, over HTTP and over
// WebSockets to the model, unless -codex-turns is 0. With -before another Caddy, such as one
// built of an earlier commit, is measured in the same session.
//
// Two scenarios run only if they are named: what requests of each kind ask of a Redis, and what
// nodes that share one cost:
//
//	go run ./internal/test/cmd/bench -only redis
//	go run ./internal/test/cmd/bench -only nodes -redis-nodes 20 -keys 5000
//
// It runs on Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// options are the command's flags.
type options struct {
	rig.Programs
	before     string
	handler    string
	messages   bool
	only       string
	repeat     int
	blast      int
	streams    int
	window     time.Duration
	codexTurns int
	maxMemory  string
	nodes      int
	nodeTurns  int
	keys       int
	every      time.Duration
}

// The first argument of this program where it is not the bench.
const (
	roleDouble    = "app-server"
	roleCatalogue = "debug" // codex debug models
	roleFloor     = "floor"
)

func main() {
	if len(os.Args) > 1 {
		if run, ok := roles[os.Args[1]]; ok {
			if err := run(os.Args[2:]); err != nil {
				fmt.Fprintf(os.Stderr, "bench, as %s: %v\n", os.Args[1], err)
				os.Exit(1)
			}
			return
		}
	}
	var o options
	flag.StringVar(&o.before, "before", "", "another Caddy to measure in the same run, such as one built of an earlier commit")
	flag.StringVar(&o.handler, "handler", "", "further lines of the directive codex for this Caddy, but not for the one before: what an option costs is seen with -before the same program")
	flag.BoolVar(&o.messages, "messages", false, "measure Caddy with Anthropic's Messages, too, beside chat completions")
	flag.StringVar(&o.only, "only", "", "the scenarios to run, with commas: blast, paced1, paced64, paced500, requests, bare, prompts, counts, memory, codex, redis, nodes; default: all but the last two")
	flag.IntVar(&o.repeat, "repeat", 5, "repetitions")
	flag.IntVar(&o.blast, "deltas", 20_000, "deltas of each of the four streams of a blast")
	flag.IntVar(&o.streams, "streams", 2000, "open streams whose memory is measured")
	flag.DurationVar(&o.window, "window", time.Second, "how long paced streams and requests are measured")
	flag.IntVar(&o.codexTurns, "codex-turns", 30, "short turns with the real codex; 0: do without it")
	flag.StringVar(&o.maxMemory, "max-memory", "1GiB", "above it a fresh codex takes over, as in a Caddyfile; off: never")
	flag.IntVar(&o.nodes, "redis-nodes", 20, "nodes that share a Redis")
	flag.IntVar(&o.nodeTurns, "node-turns", 2000, "chats at those nodes")
	flag.IntVar(&o.keys, "keys", 5000, "keys with limits at those nodes")
	flag.DurationVar(&o.every, "every", 50*time.Millisecond, "pause between two chats at those nodes")
	rig.Main("bench", func(ctx context.Context, programs rig.Programs) error {
		o.Programs = programs
		return run(ctx, o)
	})
}

// roles are what this program is besides the bench.
var roles = map[string]func(args []string) error{
	roleDouble: func([]string) error { return runDouble() },
	roleCatalogue: func([]string) error {
		_, err := fmt.Println(`{"models":[{"slug":"gpt-5"}]}`)
		return err
	},
	roleFloor: func(args []string) error {
		if len(args) != 1 {
			return errors.New("an address is needed")
		}
		return runFloor(args[0])
	},
}

func (o *options) wants(name string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), name)
}

func run(ctx context.Context, o options) error {
	switch o.only {
	case "redis":
		return measureRedis(ctx, o)
	case "nodes":
		return measureNodes(ctx, o)
	}
	home, err := os.MkdirTemp("", "caddy-codex-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	sheet := new(sheet)
	if err := measureServers(ctx, o, home, sheet); err != nil {
		return err
	}
	sheet.print(os.Stdout)
	if o.codexTurns > 0 && o.wants("codex") {
		return measureCodex(ctx, o)
	}
	return nil
}

type starter struct {
	name  string
	start func(context.Context) (*server, error)
}

// The names of servers to which others are compared, or are in another way.
const (
	isFloor      = "floor"
	isCaddy      = "Caddy"
	asksMessages = "Messages"
)

// starters returns the servers that are compared, the floor first.
func starters(o options, home string) ([]starter, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	with := func(name, program, handler string) starter {
		return starter{name, func(ctx context.Context) (*server, error) {
			return startCaddy(ctx, program, name, self, home, handler)
		}}
	}
	all := []starter{{isFloor, startFloor}, with(isCaddy, o.Caddy, o.handler)}
	if o.messages {
		all = append(all, starter{asksMessages, func(ctx context.Context) (*server, error) {
			s, err := startCaddy(ctx, o.Caddy, asksMessages, self, home, o.handler)
			if err == nil {
				s.form = messagesForm
			}
			return s, err
		}})
	}
	if o.before != "" {
		all = append(all, with("before", o.before, ""))
	}
	return all, nil
}

// measureServers runs all scenarios on all servers.
func measureServers(ctx context.Context, o options, home string, sheet *sheet) error {
	all, err := starters(o, home)
	if err != nil {
		return err
	}
	var lasting []*server
	defer func() {
		for _, s := range lasting {
			_ = s.stop()
		}
	}()
	for _, st := range all {
		s, err := st.start(ctx)
		if err != nil {
			return err
		}
		lasting = append(lasting, s)
	}
	for _, sc := range scenarios() {
		if !o.wants(sc.name) {
			continue
		}
		if sc.fresh {
			err = measureFresh(ctx, o, sc, all, sheet)
		} else {
			err = measureInTurn(ctx, o, sc, lasting, sheet)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
	}
	return nil
}

// measureInTurn repeats a scenario on servers in turn. Which of them is the first changes.
func measureInTurn(ctx context.Context, o options, sc scenario, servers []*server, sheet *sheet) error {
	for round := range o.repeat {
		for i := range servers {
			s := servers[(i+round)%len(servers)]
			got, err := sc.run(ctx, o, s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			sheet.add(s.name, got)
			time.Sleep(50 * time.Millisecond) // for what the load leaves behind
		}
	}
	return nil
}

// freshRepeat is how often a scenario is repeated that needs servers of its own.
const freshRepeat = 2

// measureFresh runs a scenario on servers that have served nothing.
func measureFresh(ctx context.Context, o options, sc scenario, all []starter, sheet *sheet) error {
	for range min(o.repeat, freshRepeat) {
		for _, st := range all {
			s, err := st.start(ctx)
			if err != nil {
				return err
			}
			got, err := sc.run(ctx, o, s)
			_ = s.stop()
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			sheet.add(s.name, got)
		}
	}
	return nil
}
