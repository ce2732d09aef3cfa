package codexrpc

import "sync/atomic"

// Stats counts what a connection met and did not use. The counts are since
// the connection began.
type Stats struct {
	UnknownNotifications uint64 // methods this client does not know
	UnknownRequests      uint64 // server requests answered with -32601
	UnknownAnswers       uint64 // answers to no call of ours, or to one long given up
	LateAnswers          uint64 // answers to calls whose caller had gone
	Garbage              uint64 // lines that are not a JSON object of the protocol
	TooLarge             uint64 // lines above MaxMessage, skipped
	Unrouted             uint64 // events of no thread or turn of ours
	Overflowed           uint64 // turns ended because their queue was full
}

// counters is Stats as it grows.
type counters struct {
	unknownNotifications atomic.Uint64
	unknownRequests      atomic.Uint64
	unknownAnswers       atomic.Uint64
	lateAnswers          atomic.Uint64
	garbage              atomic.Uint64
	tooLarge             atomic.Uint64
	unrouted             atomic.Uint64
	overflowed           atomic.Uint64
}

func (c *counters) snapshot() Stats {
	return Stats{
		UnknownNotifications: c.unknownNotifications.Load(),
		UnknownRequests:      c.unknownRequests.Load(),
		UnknownAnswers:       c.unknownAnswers.Load(),
		LateAnswers:          c.lateAnswers.Load(),
		Garbage:              c.garbage.Load(),
		TooLarge:             c.tooLarge.Load(),
		Unrouted:             c.unrouted.Load(),
		Overflowed:           c.overflowed.Load(),
	}
}
