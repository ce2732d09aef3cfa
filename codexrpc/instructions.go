package codexrpc

import (
	"strings"
	"sync"
)

// The bounds of what is remembered of a login's models: their number, and the
// length of a name, which may be a client's.
const (
	maxTaking    = 256
	maxTakingLen = 256
)

// instructions is what was found out about the provider of a connection's login:
// whether it takes instructions in the place of Codex's own prompt. It holds until
// the login changes or the connection ends.
type instructions struct {
	mu     sync.Mutex
	strict bool            // it has refused them
	taking map[string]bool // the models with which it has taken them
}

// Strict reports whether the provider has refused instructions in the place of
// Codex's own prompt.
func (c *Conn) Strict() bool {
	c.instructions.mu.Lock()
	defer c.instructions.mu.Unlock()
	return c.instructions.strict
}

// TakesInstructions reports whether the provider has taken such instructions with
// a model.
func (c *Conn) TakesInstructions(model string) bool {
	c.instructions.mu.Lock()
	defer c.instructions.mu.Unlock()
	return c.instructions.taking[model]
}

// InstructionsTaken notes that it has.
func (c *Conn) InstructionsTaken(model string) {
	i := &c.instructions
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case len(model) > maxTakingLen || len(i.taking) >= maxTaking:
	case i.taking == nil:
		i.taking = make(map[string]bool)
		fallthrough
	default:
		i.taking[strings.Clone(model)] = true
	}
}

// InstructionsRefused notes that it has not. It reports whether that is the first
// time.
func (c *Conn) InstructionsRefused(model string) (first bool) {
	i := &c.instructions
	i.mu.Lock()
	defer i.mu.Unlock()
	first = !i.strict
	i.strict = true
	delete(i.taking, model)
	return first
}

// forget begins anew: another login may have another provider.
func (i *instructions) forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.strict, i.taking = false, nil
}

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
		return Prompt{Twice: atLeast(p.status.Version, liteRelease)}
	}
	if entry := p.models.find(model); entry != nil {
		return Prompt{Own: entry.prompt, Twice: entry.lite}
	}
	return Prompt{}
}
