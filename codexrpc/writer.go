package codexrpc

import (
	"context"
	"errors"
	"fmt"
)

// maxReplies bounds the replies to the app-server's own requests that wait to be
// written. Each is some hundred bytes at most.
const maxReplies = 4096

var errNotReading = errors.New("the codex app-server does not read its input")

// send hands a message to the writer. It waits until the writer has written the
// one before, so that large messages do not pile up.
func (c *Conn) send(ctx context.Context, message []byte) error {
	select {
	case c.outgoing <- message:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.done:
		return c.Err()
	}
}

// reply queues a reply to a request of the app-server's. It is for the reader,
// which must not wait: when too many replies are queued the connection ends.
func (c *Conn) reply(o outgoing) {
	message, err := encode(o)
	if err != nil {
		c.Fail(err)
		return
	}
	select {
	case c.replies <- message:
	default:
		c.Fail(errNotReading)
	}
}

// writeLoop writes messages until the connection ends.
func (c *Conn) writeLoop() {
	defer c.loops.Done()
	for {
		var message []byte
		select {
		case message = <-c.outgoing:
		case message = <-c.replies:
		case <-c.done:
			return
		}
		if err := c.transport.Write(message, writeTimeout); err != nil {
			c.Fail(fmt.Errorf("writing to the app-server: %w", err))
			_ = c.transport.Close() // ends the reader's Read
			return
		}
	}
}
