// Command marathon lets real clients push millions of tokens through a model's context window, by way
// of the built Caddy and the real Codex with a login. The scripted model counts the tokens, refuses what
// is too long, and answers questions for facts from what it was sent:
//
//	go run ./internal/test/cmd/marathon -client claude,codex -tokens 2000000 -window 272000
//
// In the middle it reloads the configuration, kills the app-server and, with -nodes 2, lets another Caddy
// go on. It prints a line for each session, and exits with 1 if a session has failed, forgotten something, or too little
// of its input would have been cached.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/marathon"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// options are the command's flags.
type options struct {
	rig.Programs
	clients     []string
	codexClient string
	sdks        string
	webSockets  bool
	nodes       int
	verbose     bool
	log         string
	marathon.Options
}

func main() {
	var o options
	var clients, transport string
	flag.StringVar(&clients, "client", "all", "of "+strings.Join(marathon.Names, ", ")+", with commas between them")
	flag.StringVar(&o.codexClient, "codex-client", "", "the Codex CLI that is a client; by default that of -codex")
	flag.StringVar(&o.sdks, "sdks", "internal/test/e2e/clients", "where the other clients are")
	flag.StringVar(&transport, "transport", "websocket", "how Codex asks: websocket or http")
	flag.IntVar(&o.Tokens, "tokens", 2_000_000, "how many tokens are added to each session in all")
	flag.IntVar(&o.Window, "window", 272_000, "how many tokens the model can read")
	flag.IntVar(&o.Step, "step", 4_000, "how many tokens a call adds")
	flag.IntVar(&o.Calls, "calls", 7, "how many calls a turn makes")
	flag.IntVar(&o.Summary, "summary", 20_000, "how long summaries are, in bytes")
	flag.IntVar(&o.nodes, "nodes", 1, "how many Caddys there are; with 2 they share a Redis")
	flag.BoolVar(&o.verbose, "v", false, "print a line after each turn")
	flag.StringVar(&o.log, "log", "", "a file for what Caddy says")
	rig.Main("marathon", func(ctx context.Context, programs rig.Programs) (err error) {
		o.Programs, o.webSockets = programs, transport == "websocket"
		if o.clients = strings.Split(clients, ","); clients == "all" {
			o.clients = marathon.Names
		}
		if o.codexClient == "" {
			o.codexClient = programs.Codex
		}
		if !o.webSockets && transport != "http" {
			return fmt.Errorf("the transport %q is neither websocket nor http", transport)
		}
		if o.sdks, err = filepath.Abs(o.sdks); err != nil {
			return err
		}
		return run(ctx, o)
	})
}

// run runs the sessions one after the other, and prints a line for each.
func run(ctx context.Context, o options) error {
	var wrong []error
	fmt.Println("client            tokens requests summaries largest  cached of-summaries refused forgotten failures  time")
	for _, name := range o.clients {
		if !slices.Contains(marathon.Names, name) {
			return fmt.Errorf("there is no client %q", name)
		}
		r, err := session(ctx, o, name)
		wrong = append(wrong, err, r.Check(name, o.Options))
		fmt.Printf("%-14s %9d %8d %9d %7d %6.1f%% %11.1f%% %7d %9d %8d %5s\n", name, r.Pushed, r.Requests, r.Summaries, r.Largest,
			r.CachedShare(), r.SummaryShare(), r.Refused, len(r.Forgotten), len(r.Failures), r.Took.Round(time.Second))
	}
	return errors.Join(wrong...)
}
