package codexrpc

import (
	"io"
	"sync/atomic"
	"time"
)

// A Transport with MaxWrite takes messages of so many bytes at most. Calls above
// that are refused before they are sent.
type bounded interface{ MaxWrite() int }

// A Transport with Progress counts what moves on it by the doing of the
// app-server: what was read, and what the app-server must have read. The number
// only grows.
type progressing interface{ Progress() uint64 }

// countedReader counts the reads that brought something.
type countedReader struct {
	io.Reader
	moved *atomic.Uint64
}

// Read reads and counts.
func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.moved.Add(1)
	}
	return n, err
}

// Transport moves whole messages, each one JSON object, between this client
// and an app-server. Read is called by one goroutine and Write by one other;
// Close may come from any and ends both.
type Transport interface {
	// Read returns the next message. The bytes are valid until the next Read.
	// An error that matches [ErrMessageTooLarge] concerns one message, which
	// was skipped; any other error is the end.
	Read() ([]byte, error)
	// Write sends one message, or fails when that takes longer than timeout.
	// After an error the transport is unusable.
	Write(message []byte, timeout time.Duration) error
	// Close ends the transport; a Read under way returns. For a child process
	// it closes the child's stdin, which asks it to end.
	Close() error
}
