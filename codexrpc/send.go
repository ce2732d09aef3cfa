package codexrpc

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxReplies bounds the queue of replies to the app-server's own requests. Each reply has at most
// a few hundred bytes.
const maxReplies = 4096

// writeTimeout is how long one message may take to be written.
const writeTimeout = 30 * time.Second

type outbox struct {
	calls   chan []byte // calls, notifications and answers to parked tool calls
	replies chan []byte // other answers to requests from the app-server
}

var errNotReading = errors.New("the codex app-server does not read its input")

// send hands a message to the goroutine that writes. It waits until that goroutine has written the
// previous message, so that large messages do not pile up.
func (c *Conn) send(ctx context.Context, message []byte) error {
	return sendTo(ctx, c, c.out.calls, message)
}

func sendTo[T any](ctx context.Context, c *Conn, to chan<- T, value T) error {
	select {
	case to <- value:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.done:
		return c.Err()
	}
}

// Notify sends a notification, which has no answer. params may be nil. An error matches
// [ErrClosed], is the cause of the end of ctx, or says that params cannot be encoded.
func (c *Conn) Notify(ctx context.Context, method string, params any) error {
	message, err := encode(outgoing{Method: method, Params: params})
	if err != nil {
		return err
	}
	return c.send(ctx, message)
}

// answer queues an answer for the app-server without waiting: a full queue ends the connection. Only
// the reading goroutine calls it.
func (c *Conn) answer(o outgoing) {
	message, err := encode(o)
	if err != nil {
		c.Fail(err)
		return
	}
	select {
	case c.out.replies <- message:
	default:
		c.Fail(errNotReading)
	}
}

func (c *Conn) writeLoop() {
	defer c.loops.Done()
	for {
		var message []byte
		select {
		case message = <-c.out.calls:
		case message = <-c.out.replies:
		case <-c.done:
			return
		}
		if err := c.transport.Write(message, writeTimeout); err != nil {
			c.Fail(fmt.Errorf("writing to the app-server: %w", err))
			_ = c.transport.Close() // ends the Read of readLoop
			return
		}
	}
}
