package pool

import (
	"cmp"
	"context"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// reportCodex logs, with an event, that a process has another version of Codex or another default model
// than before. It also logs a new version that was not tested.
func (p *Process) reportCodex(ctx context.Context) {
	in := p.Ready()
	if in == nil {
		return
	}
	version, model := p.Status().Version, cmp.Or(in.KnownDefault(ctx), p.seenModel)
	oldVersion, oldModel := p.seenVersion, p.seenModel
	p.seenVersion, p.seenModel = version, model
	if note := codexrpc.Untested(version); note != "" && version != oldVersion {
		p.Log().Warn("Codex may not behave as tested", "app_server", p.id, "reason", note)
	}
	if oldVersion != "" && version != oldVersion {
		p.reportChange(eventVersion, map[string]any{"version": version, "before": oldVersion})
	}
	if oldModel != "" && model != oldModel {
		p.reportChange(eventModel, map[string]any{
			"model": model, "context_window": in.Model(model).Window, "before": oldModel, "context_window_before": in.Model(oldModel).Window,
		})
	}
}

func (p *Process) reportChange(name string, data map[string]any) {
	p.post(event{name, data})
	p.Log().Warn("Codex has changed", "event", name, "data", data)
}
