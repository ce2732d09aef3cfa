package pool

import (
	"context"
	"path/filepath"
	"sync"
	"time"

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
	p.RateLimits(ctx, limitsPause)
	one := status.AppServer{
		ID: p.id, Home: p.creator.cfg.Home, Status: p.Status(), Windows: windows,
		Login: loginStatusOf(p.login.Login), Conversations: p.Conversations.Stats(),
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

func loginStatusOf(login *loginstate.Login) status.Login {
	now := login.Status()
	s := status.Login{State: string(now.State), Cause: string(now.Cause), Reason: now.Cause.Advice(), ResetsAt: now.ResetsAt.UTC(), RestsUntil: now.RestsUntil.UTC()}
	if limits := login.Limits(); limits != nil {
		s.Plan, s.Allowed, s.Credits, s.ResetCredits, s.LimitsAt = limits.Plan, limits.Allowed, limits.Credits, limits.ResetCredits, limits.At.UTC()
		for i := range limits.Meters {
			meter := &limits.Meters[i]
			one := status.Meter{ID: meter.ID, Name: meter.Name, Spent: login.Spent(meter), Windows: []status.Window{}}
			for _, w := range meter.Windows() {
				one.Windows = append(one.Windows, status.Window{Window: w.Name(), UsedPercent: w.UsedPercent, ResetsAt: w.ResetsAt.UTC(), Over: w.Over(time.Now())})
			}
			s.Meters = append(s.Meters, one)
		}
	}
	return s
}
