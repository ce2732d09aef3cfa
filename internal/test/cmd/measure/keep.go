package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// unloadDelay is the setting of a thread that makes codex unload it at once.
const unloadDelay = "thread_unload_delay_secs"

// keeper runs turns on a codex as Caddy does, except that codex unloads threads half
// an hour after their last turn. It is for -unload=false.
type keeper struct {
	process *appserver.Process
}

// keepThreads starts a codex without Caddy.
func keepThreads(o options, home string) (*keeper, error) {
	var limit uint64
	if o.maxMemory != "off" {
		var err error
		if limit, err = humanize.ParseBytes(o.maxMemory); err != nil {
			return nil, err
		}
	}
	logger := slog.New(slog.DiscardHandler)
	if o.log {
		logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	process := appserver.New(appserver.Config{
		Command:   []string{o.Codex, "app-server"},
		Home:      home,
		Env:       map[string]string{"RUST_LOG": "error"},
		MaxMemory: int64(limit),
		Client:    codexrpc.ClientInfo{Name: "measure", Version: "0"},
	}, logger)
	process.Start()
	return &keeper{process}, nil
}

// turn runs the turn of a chat request.
func (k *keeper) turn(ctx context.Context, body string) (timing, error) {
	start := time.Now()
	request, refusal := chat.Decode([]byte(body))
	if refusal != nil {
		return timing{}, refusal
	}
	plan, refusal := request.Plan(prompt.Options{Cwd: k.process.Dir()})
	if refusal != nil {
		return timing{}, refusal
	}
	if _, set := plan.Thread.Config[unloadDelay]; !set {
		return timing{}, errors.New(unloadDelay + " is not set: there is nothing to leave out")
	}
	delete(plan.Thread.Config, unloadDelay)
	conn, err := k.process.Conn(ctx)
	if err != nil {
		return timing{}, err
	}
	thread, err := conn.StartThread(ctx, plan.Thread)
	if err != nil {
		return timing{}, err
	}
	defer thread.Close(nil)
	if err := thread.StartTurn(ctx, plan.Turn); err != nil {
		return timing{}, err
	}
	t, err := follow(ctx, thread, start)
	t.whole = time.Since(start)
	return t, err
}

// follow reads the events of a turn until it ends.
func follow(ctx context.Context, thread *codexrpc.Thread, start time.Time) (t timing, err error) {
	var events []codexrpc.Event
	for {
		if events, err = thread.Recv(events); err != nil && len(events) == 0 {
			return t, err
		}
		for _, event := range events {
			switch event.Kind {
			case codexrpc.EventTextDelta:
				if t.chunks++; t.chunks == 1 {
					t.first = time.Since(start)
				}
			case codexrpc.EventTurnCompleted:
				if event.Err != nil {
					return t, event.Err
				}
				return t, nil
			}
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-thread.Ready():
		case <-ctx.Done():
			return t, ctx.Err()
		}
	}
}
