// Package sse writes and reads server-sent events, the text/event-stream
// format of the WHATWG HTML standard.
//
// [Writer] puts events onto an [net/http.ResponseWriter]. It owns no goroutine:
// the loop that produces the events also asks it for the next keepalive. Every
// write runs under a deadline, so that a client that stops reading costs a
// bounded time and a bounded buffer.
//
// [Reader] takes a stream apart again, whatever the pieces in which it arrives.
//
// The package knows nothing of what the events mean.
package sse
