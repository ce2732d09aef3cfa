// Package sse writes server-sent events, the text/event-stream format of the
// WHATWG HTML standard, onto an [net/http.ResponseWriter].
//
// A [Writer] has no goroutine: the loop that produces the events also asks the Writer when a keepalive
// is due. The buffer of a Writer has a fixed size, and the time of each write can be limited, in case a
// client stops reading. The package does not interpret the events.
package sse
