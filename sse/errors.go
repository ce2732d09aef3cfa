package sse

import "errors"

var (
	// ErrStalled is matched by the error of a [Writer] whose client did not take
	// the bytes within the write timeout. The connection cannot be used any more.
	ErrStalled = errors.New("sse: the client stopped reading")

	// ErrClosed is returned by the methods of a [Writer] after Close.
	ErrClosed = errors.New("sse: the stream is closed")

	// ErrEventType is returned by [Writer.WriteEvent] for an event type that
	// contains a line break. Nothing was written.
	ErrEventType = errors.New("sse: the event type holds a line break")
)
