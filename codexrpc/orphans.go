package codexrpc

import "context"

// Unfinished returns the ids of the threads whose turns may run, also once the
// connection has ended.
func (c *Conn) Unfinished() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.orphans
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

// InterruptAll ends the turns that run on threads, be they of this connection or
// of another. What is refused has ended.
func (c *Conn) InterruptAll(ctx context.Context, threads []string) {
	for _, id := range threads {
		params := struct {
			ThreadID string `json:"threadId"`
			TurnID   string `json:"turnId"` // empty: the active turn
		}{ThreadID: id}
		if err := c.call(ctx, call{method: methodTurnInterrupt, params: params}); err != nil {
			c.logger().Debug("interrupting the turn of a lost connection", "thread", id, "error", err)
		}
		if ctx.Err() != nil || c.Err() != nil {
			return
		}
	}
}
