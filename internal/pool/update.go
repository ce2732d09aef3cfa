package pool

import (
	"context"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// seenCodex is what was seen of the Codex of a process.
type seenCodex struct {
	version, model string // the model is the default one
	window         int    // of the model, in tokens; 0: not known
}

// reportCodex logs, with an event, that a process has another version of Codex or another default model than
// before: once for all processes of the login. It warns once of each version that was not tested.
func (l *login) reportCodex(ctx context.Context, p *Process) {
	in := p.Ready()
	if in == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	before := p.seen
	p.seen.version = p.Status().Version
	if model := in.KnownDefault(ctx); model != "" {
		p.seen.model, p.seen.window = model, in.Model(model).Window
	}
	now := p.seen
	_, known := l.supervisor.versions.LoadOrStore(now.version, true)
	if note := codexrpc.Untested(now.version); note != "" && !known {
		p.Log().Warn("Codex may not behave as tested", "app_server", p.id, "reason", note)
	}
	if before.version != "" && now.version != before.version && now.version != l.told.version {
		l.told.version = now.version
		p.reportChange(eventVersion, map[string]any{"version": now.version, "before": before.version})
	}
	if before.model != "" && now.model != before.model && now.model != l.told.model {
		l.told.model = now.model
		p.reportChange(eventModel, map[string]any{
			"model": now.model, "context_window": now.window, "limit": l.Limits().MeterID(now.model),
			"before": before.model, "context_window_before": before.window, "limit_before": l.Limits().MeterID(before.model),
		})
	}
}

func (p *Process) reportChange(name string, data map[string]any) {
	p.post(event{name, data})
	p.Log().Warn("Codex has changed", "event", name, "data", data)
}
