package pool

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/status"
)

// statusTimeout bounds the requests to all processes for the limits of their plans.
const statusTimeout = 2 * time.Second

// Statuses returns the statuses of processes. It asks all processes at the same time for the limits
// of their plans. It waits for the limits until ctx ends, but at most for statusTimeout.
func Statuses(ctx context.Context, processes []*Process) []status.AppServer {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	found := make([]status.AppServer, len(processes))
	var asking sync.WaitGroup
	for i, p := range processes {
		asking.Go(func() { found[i] = p.status(ctx) })
	}
	asking.Wait()
	return found
}

func (p *Process) status(ctx context.Context) status.AppServer {
	windows := p.Windows(ctx)
	limits := p.RateLimits(ctx)
	one := status.AppServer{
		ID: p.id, Home: p.creator.cfg.Home, Status: p.Status(), Windows: windows,
		Login: loginStatusOf(p.login.Status(), limits), Conversations: p.Conversations.Stats(),
	}
	if command := p.creator.cfg.Command; len(command) > 0 {
		one.Program = filepath.Base(command[0])
	}
	one.Login.SignIn = p.login.signIn.status()
	if one.Strict {
		one.Instructions = string(conversation.InstructionsAppend)
	}
	return one
}

func loginStatusOf(login loginstate.Status, limits *codexrpc.RateLimits) status.Login {
	s := status.Login{State: string(login.State), Cause: string(login.Cause), Reason: login.Cause.Advice(), ResetsAt: login.ResetsAt.UTC(), RestsUntil: login.RestsUntil.UTC()}
	if limits == nil {
		return s
	}
	s.Plan, s.Allowed, s.Credits, s.ResetCredits = limits.Plan, limits.Allowed, limits.Credits, limits.ResetCredits
	for _, w := range limits.Windows() {
		s.Windows = append(s.Windows, status.Window{Window: w.Name(), UsedPercent: w.UsedPercent, ResetsAt: w.ResetsAt.UTC()})
	}
	return s
}
