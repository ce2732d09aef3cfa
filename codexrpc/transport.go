package codexrpc

import "time"

// A Transport with MaxWrite takes messages of so many bytes at most. Calls above
// that are refused before they are sent.
type bounded interface{ MaxWrite() int }

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
