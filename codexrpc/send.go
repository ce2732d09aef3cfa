package codexrpc

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxReplies bounds the replies to the app-server's own requests that wait to be
// written. Each is some hundred bytes at most.
const maxReplies = 4096

var errNotReading = errors.New("the codex app-server does not read its input")

// send writes a message, or hands it to the writer.
func (c *Conn) send(ctx context.Context, message []byte) error {
	if c.writeNow(message) {
		return nil
	}
	return c.enqueue(ctx, message)
}

// enqueue hands a message to the writer. It waits until the writer has written the
// one before, so that large messages do not pile up.
func (c *Conn) enqueue(ctx context.Context, message []byte) error {
	c.queued.Add(1)
	err := pass(ctx, c, c.outgoing, message)
	if err != nil {
		c.queued.Add(-1)
	}
	return err
}

// writeNow writes a message if that needs no waiting: to wake the writer costs as much as
// to write. It overtakes no message that the writer has or will get. An error ends the
// connection, as one of the writer's does.
func (c *Conn) writeNow(message []byte) (written bool) {
	if c.quick == nil || c.queued.Load() > 0 {
		return false
	}
	c.writing.Lock() // waits for quick writes alone
	if c.queued.Load() > 0 {
		c.writing.Unlock()
		return false
	}
	before := len(c.late)
	if before == 0 && message == nil {
		c.writing.Unlock()
		return true
	}
	if before > 0 {
		if before+len(message) >= atomicWrite { // TryWrite would refuse both together
			c.writing.Unlock()
			return false
		}
		c.late = appendLine(c.late, message)
		message = c.late
	}
	written, err := c.quick.TryWrite(message)
	if written {
		before = 0
	}
	c.late = c.late[:before]
	c.writing.Unlock()
	if err != nil {
		c.failWriting(err)
	}
	return written
}

// lateness is how long a message waits for another one, to be written with it.
const lateness = 5 * time.Millisecond

// maxLate bounds the messages that wait, in bytes.
const maxLate = atomicWrite / 2

// writeLater lets a short message that nobody waits for be written together with the next
// one: each write wakes the app-server. It does so only while other calls are in flight, so
// that another one is likely to come soon.
func (c *Conn) writeLater(message []byte) bool {
	if c.quick == nil || len(c.slots) < 2 { // one is this call's
		return false
	}
	c.writing.Lock()
	fits := c.queued.Load() == 0 && len(c.late)+len(message) < maxLate
	if fits {
		c.late = appendLine(c.late, message)
	}
	c.writing.Unlock()
	if fits {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.err == nil {
			c.watchCalls(time.Now().Add(lateness))
		}
	}
	return fits
}

// appendLine appends a message to others.
func appendLine(to, message []byte) []byte {
	if len(to) > 0 && len(message) > 0 {
		to = append(to, '\n')
	}
	return append(to, message...)
}

// flushLate writes the messages that wait, or lets the writer do so.
func (c *Conn) flushLate() {
	c.writing.Lock()
	waiting := len(c.late) > 0
	c.writing.Unlock()
	if waiting && !c.writeNow(nil) {
		c.reply(nil)
	}
}

// takeLate waits for the end of a quick write and returns the messages that wait. No other
// quick write begins as long as queued is not 0.
func (c *Conn) takeLate() []byte {
	c.writing.Lock()
	defer c.writing.Unlock()
	late := c.late
	c.late = nil
	return late
}

// failWriting ends the connection after an error of a write.
func (c *Conn) failWriting(err error) {
	c.Fail(fmt.Errorf("writing to the app-server: %w", err))
	_ = c.transport.Close() // ends the reader's Read
}

// pass passes a value to a channel, unless ctx or the connection ends before.
func pass[T any](ctx context.Context, c *Conn, to chan<- T, value T) error {
	select {
	case to <- value:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.done:
		return c.Err()
	}
}

// answer queues the answer to a request of the app-server's. It is for the reader.
func (c *Conn) answer(o outgoing) {
	message, err := encode(o)
	if err != nil {
		c.Fail(err)
		return
	}
	c.reply(message)
}

// reply queues a message for the writer and waits for nothing: when too many are queued the
// connection ends. If it is nil only those are written that wait for another one.
func (c *Conn) reply(message []byte) {
	c.queued.Add(1)
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
		for _, m := range [][]byte{c.takeLate(), message} {
			if len(m) == 0 {
				continue
			}
			if err := c.transport.Write(m, writeTimeout); err != nil {
				c.failWriting(err)
				return
			}
		}
		c.queued.Add(-1)
	}
}
