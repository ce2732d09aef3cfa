package appserver

import "github.com/caddy-codex/caddy-codex/codexrpc"

// liteRelease is the minor version of the first release of Codex that is known to
// send no base prompt if it is empty.
const liteRelease = 169

// Prompt is what Codex does with the base prompt of a thread.
type Prompt struct {
	// Own is Codex's own prompt for the model; empty: it is not known.
	Own string
	// Twice reports that the model may get the base prompt twice if the thread has no
	// tools, and gets none if it is empty.
	Twice bool
}

// Prompt returns what the app-server does with the base prompt of a model. Models
// with use_responses_lite get it twice; which those are is not known of a remote
// app-server.
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
