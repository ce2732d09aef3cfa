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
