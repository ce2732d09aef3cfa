// Command soak runs the built Caddy with the real codex and the scripted model
// for a while, under mixed traffic, and makes trouble: it kills and stops codex,
// reloads, leaves, and sends what no client should. Every answer is checked to
// the byte. At the end nothing may be left and no size may have grown:
//
//	go run ./internal/test/cmd/soak -minutes 60
//
// It prints a line a minute and a verdict, and exits with 1 if that is bad. It is
// for Linux.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// options are the command's flags.
type options struct {
	caddy, codex string
	minutes      float64
	clients      int
	seed         uint64
	log          string
}

func main() {
	var o options
	flag.StringVar(&o.caddy, "caddy", "build/caddy", "the Caddy to run")
	flag.StringVar(&o.codex, "codex", ".cache/codex/node_modules/.bin/codex", "the codex to run")
	flag.Float64Var(&o.minutes, "minutes", 10, "how long")
	flag.IntVar(&o.clients, "clients", 12, "clients at once")
	flag.Uint64Var(&o.seed, "seed", 1, "chooses what is asked and which trouble is made, but not when things happen")
	flag.StringVar(&o.log, "log", "", "a file for what Caddy says")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}
