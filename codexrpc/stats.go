package codexrpc

// Stats counts what a connection received and did not use, since it began.
type Stats struct {
	UnknownNotifications uint64 // of methods that this client does not know
	UnknownRequests      uint64 // answered with -32601
	UnknownAnswers       uint64 // to no call of ours, or to one abandoned long ago
	LateAnswers          uint64 // to calls whose caller had left
	Garbage              uint64 // lines that are not a JSON object of the protocol
	TooLarge             uint64 // lines above MaxMessage, skipped
	Unrouted             uint64 // events of no thread or turn of ours
	Overflowed           uint64 // turns ended because their queue was full
}

// Stats returns the counts so far.
func (c *Conn) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// count adds one to a field of c.stats.
func (c *Conn) count(field *uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*field++
}
