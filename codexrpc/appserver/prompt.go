package appserver

import "github.com/caddy-codex/caddy-codex/codexrpc"

// liteRelease is the minor version from which Codex is known to send an empty
// base prompt as none.
const liteRelease = 169

// Prompt is what Codex does with the base prompt of a thread.
type Prompt struct {
	// Own is Codex's own prompt for the model; empty: it is not known.
	Own string
	// Twice says that a base prompt that is not empty may reach the model twice if
	// the thread has no tools. An empty one does not reach it at all.
	Twice bool
}

// Prompt is what the app-server does with the base prompt of a model: those
// with use_responses_lite get it twice. Of a remote app-server nobody knows which
// those are.
func (p *Process) Prompt(model string) Prompt {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cfg.Connect != "" {
		return Prompt{Twice: codexrpc.AtLeast(p.status.Version, liteRelease)}
	}
	if entry := p.models.find(model); entry != nil {
		return Prompt{Own: entry.Prompt, Twice: entry.Lite}
	}
	return Prompt{}
}
