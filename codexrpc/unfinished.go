package codexrpc

import "context"

// Unfinished returns the ids of the threads whose turns may run, or that had such
// turns when the connection ended.
func (c *Conn) Unfinished() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.unfinished
	}
	return running(c.threads)
}

func running(threads map[string]*Thread) (ids []string) {
	for id, t := range threads {
		if t.running() {
			ids = append(ids, id)
		}
	}
	return ids
}

// InterruptAll interrupts the turns of threads, which may have been started on
// another connection. It ignores refusals: such a turn has ended.
func (c *Conn) InterruptAll(ctx context.Context, threads []string) {
	for _, id := range threads {
		if err := c.interrupt(ctx, id, ""); err != nil {
			c.logger().Debug("interrupting the turn of a lost connection", "thread", id, "error", err)
		}
		if ctx.Err() != nil || c.Err() != nil {
			return
		}
	}
}

// interrupt asks the app-server to end a turn; an empty turn means the active one
// of the thread.
func (c *Conn) interrupt(ctx context.Context, thread, turn string) error {
	params := struct {
		ThreadID string `json:"threadId"`
		TurnID   string `json:"turnId"`
	}{thread, turn}
	return c.call(ctx, call{method: methodTurnInterrupt, params: params})
}
