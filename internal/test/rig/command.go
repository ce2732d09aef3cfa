package rig

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// Programs are the programs that a command runs.
type Programs struct {
	Caddy string
	Codex string // an absolute path
}

// Main adds the flags -caddy and -codex, parses all, and calls run until SIGINT or SIGTERM. An
// error is printed with the command's name, and the exit status is 1.
func Main(name string, run func(context.Context, Programs) error) {
	var p Programs
	flag.StringVar(&p.Caddy, "caddy", "build/caddy", "the Caddy to run")
	flag.StringVar(&p.Codex, "codex", ".cache/codex/node_modules/.bin/codex", "the codex to run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	codex, err := filepath.Abs(p.Codex)
	if err == nil {
		p.Codex = codex
		err = run(ctx, p)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
