package codexrpc

import "sync"

// instructions records whether the provider accepts instructions in place of
// Codex's own prompt. It is valid until the login changes.
type instructions struct {
	mu       sync.Mutex
	strict   bool     // the provider has refused them
	accepted modelSet // models with which it has accepted them
}

// Strict reports whether the provider has refused instructions in place of Codex's
// own prompt.
func (c *Conn) Strict() bool {
	c.instructions.mu.Lock()
	defer c.instructions.mu.Unlock()
	return c.instructions.strict
}

// TakesInstructions reports whether the provider has accepted such instructions
// with a model.
func (c *Conn) TakesInstructions(model string) bool {
	c.instructions.mu.Lock()
	defer c.instructions.mu.Unlock()
	return c.instructions.accepted[model]
}

// InstructionsTaken records that the provider has accepted such instructions with a
// model.
func (c *Conn) InstructionsTaken(model string) {
	i := &c.instructions
	i.mu.Lock()
	defer i.mu.Unlock()
	i.accepted.add(model)
}

// InstructionsRefused records that the provider has refused them, and reports
// whether that is the first time.
func (c *Conn) InstructionsRefused(model string) (first bool) {
	i := &c.instructions
	i.mu.Lock()
	defer i.mu.Unlock()
	first = !i.strict
	i.strict = true
	delete(i.accepted, model)
	return first
}

// forget drops what is recorded: another login may have another provider.
func (i *instructions) forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.strict, i.accepted = false, nil
}
