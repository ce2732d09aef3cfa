// Package sse writes server-sent events, the text/event-stream format of the
// WHATWG HTML standard, onto an [net/http.ResponseWriter], and reads them.
//
// A [Reader] reads a stream within bounds. A [Writer] has no goroutine: the loop that produces
// the events also asks it for the next keepalive. Every write has a deadline, so a client that
// stops reading takes a bounded time and a bounded buffer. The package does not interpret the
// events.
package sse
