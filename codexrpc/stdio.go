package codexrpc

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MaxMessage bounds one message from the app-server, in bytes. The largest messages repeat injected
// history and are as long as the client's request.
const MaxMessage = 96 << 20

// readBuffer is the size of the read buffer, in bytes. Lines that fit into it are not copied.
const readBuffer = 64 << 10

// maxWritePart is how much of a message one Write gets, in bytes. A pipe buffers far less, so when
// a Write returns, the other side has read nearly all of the part (see Progress).
const maxWritePart = 1 << 20

// maxKeptLine is the largest buffer, in bytes, that Read keeps for the next long line.
const maxKeptLine = 1 << 20

// Stdio is the transport over a pair of pipes. Each line is one JSON object.
type Stdio struct {
	w        io.WriteCloser
	br       *bufio.Reader
	longLine []byte        // a line that did not fit into br
	limit    int           // bounds a line, in bytes; MaxMessage except in tests
	progress atomic.Uint64 // see Progress
	close    func() error  // runs once
}

// NewStdio makes a transport that reads lines from r and writes lines to w. Write timeouts need a w
// with SetWriteDeadline, as the *os.File of a pipe has; otherwise a write may wait for ever.
func NewStdio(r io.ReadCloser, w io.WriteCloser) *Stdio {
	s := &Stdio{w: w, limit: MaxMessage}
	s.close = sync.OnceValue(func() error { return errors.Join(w.Close(), r.Close()) })
	s.br = bufio.NewReaderSize(&countedReader{r, &s.progress}, readBuffer)
	return s
}

// Progress returns a count of reads and of written parts of large messages. Small writes do not
// count, since a pipe buffers them even if the other side reads nothing.
func (s *Stdio) Progress() uint64 { return s.progress.Load() }

// Read returns the next line that is not blank, without the line end.
func (s *Stdio) Read() ([]byte, error) {
	if cap(s.longLine) > maxKeptLine {
		s.longLine = nil // drops the line of the previous Read, since its buffer is too large to keep
	}
	for {
		line, err := s.readLine()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

// readLine returns one line. A line that does not fit into the buffer of s.br is collected in s.longLine.
// Of a line above s.limit, only both ends are kept, in the error that is returned.
func (s *Stdio) readLine() ([]byte, error) {
	line, err := s.br.ReadSlice('\n')
	if err == nil {
		return line, nil
	}
	if !errors.Is(err, bufio.ErrBufferFull) {
		if len(line) > 0 && errors.Is(err, io.EOF) { // the last line of the stream, without a line end
			return line, nil
		}
		return nil, err
	}
	s.longLine = append(s.longLine[:0], line...)
	var skipped *tooLargeError
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = s.br.ReadSlice('\n')
		switch {
		case skipped != nil:
			_, _ = skipped.Write(line)
		case len(s.longLine)+len(line) > s.limit:
			skipped = &tooLargeError{limit: s.limit}
			_, _ = skipped.Write(s.longLine)
			_, _ = skipped.Write(line)
			s.longLine = nil
		default:
			if len(line) > cap(s.longLine)-len(s.longLine) {
				s.longLine = slices.Grow(s.longLine, len(s.longLine)) // doubles the capacity; append would add a quarter
			}
			s.longLine = append(s.longLine, line...)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if skipped != nil {
		return nil, skipped
	}
	return s.longLine, nil
}

// HasNext reports whether the next Read certainly does not wait. If false, Read may wait.
func (s *Stdio) HasNext() bool {
	if s.br.Buffered() == 0 {
		return false
	}
	buffered, _ := s.br.Peek(s.br.Buffered())
	end := bytes.IndexByte(buffered, '\n')
	return end > 0 && len(bytes.TrimSpace(buffered[:end])) > 0
}

// Write sends one message and a line end. It may overwrite the spare capacity of message.
func (s *Stdio) Write(message []byte, timeout time.Duration) error {
	if d, ok := s.w.(interface{ SetWriteDeadline(time.Time) error }); ok {
		// Regular files, and pipes on some systems, have no deadlines.
		if err := d.SetWriteDeadline(time.Now().Add(timeout)); err != nil && !errors.Is(err, os.ErrNoDeadline) {
			return err
		}
	}
	// The encoded message has room for the line end, so that a large message is not copied.
	message = append(message, '\n')
	for len(message) > maxWritePart {
		if _, err := s.w.Write(message[:maxWritePart]); err != nil {
			return err
		}
		s.progress.Add(1)
		message = message[maxWritePart:]
	}
	_, err := s.w.Write(message)
	return err
}

// Close closes the writing side, which makes a child process end. Then it closes the reading side,
// which ends a running Read.
func (s *Stdio) Close() error { return s.close() }

// progressing is a Transport that counts signs that the app-server is alive: reads that returned
// data, and parts of large messages that the app-server must have read. The count only grows.
type progressing interface{ Progress() uint64 }

// readingAhead is a Transport that knows whether another message is buffered.
type readingAhead interface{ HasNext() bool }

type countedReader struct {
	io.Reader
	progress *atomic.Uint64
}

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.progress.Add(1)
	}
	return n, err
}

// Transport reads and writes messages, each one JSON object. One goroutine calls Read, one other
// calls Write, any may call Close, which ends a running Read or Write.
type Transport interface {
	// Read returns the next message, valid until the next Read. After an error that matches
	// [ErrMessageTooLarge], which says that one message was skipped, Read may be called again. After
	// any other error, Read must not be called again.
	Read() ([]byte, error)
	// Write sends one message within the timeout. It may use the spare capacity of message,
	// but must not use message after the return. After an error, the transport cannot be used any more.
	Write(message []byte, timeout time.Duration) error
	// Close ends the transport and a running Read. If the app-server is a child process, Close
	// closes its stdin, which makes the child end.
	Close() error
}
