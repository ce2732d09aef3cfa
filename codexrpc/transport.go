package codexrpc

import (
	"io"
	"sync/atomic"
	"time"
)

// bounded is a Transport that writes messages of MaxWrite bytes at most. Larger
// calls are refused before they are sent.
type bounded interface{ MaxWrite() int }

// progressing is a Transport that counts the progress which the app-server makes:
// the reads from it, and the writes that it must have read. The count only grows.
type progressing interface{ Progress() uint64 }

// countedReader counts the reads that returned data.
type countedReader struct {
	io.Reader
	moved *atomic.Uint64
}

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
	// Read returns the next message, which is valid until the next Read. After an
	// error that matches [ErrMessageTooLarge] one message was skipped; any other
	// error is the end.
	Read() ([]byte, error)
	// Write sends one message within the timeout. After an error the transport is
	// unusable.
	Write(message []byte, timeout time.Duration) error
	// Close ends the transport and a Read under way. For a child process it closes
	// the child's stdin, which asks the child to end.
	Close() error
}
