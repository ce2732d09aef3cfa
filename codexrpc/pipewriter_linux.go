package codexrpc

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// atomicWrite is how many bytes a pipe takes as a whole or not at all (PIPE_BUF).
const atomicWrite = 4 << 10

// pipeWriter writes to a pipe without waiting.
type pipeWriter struct {
	raw syscall.RawConn

	// Used by write, which must not allocate.
	message []byte
	n       int
	err     error
	write   func(fd uintptr) (done bool)
}

// newPipeWriter returns a writer to w, or nil if w is no pipe that is written to without
// blocking its thread.
func newPipeWriter(w io.Writer) *pipeWriter {
	file, ok := w.(*os.File)
	if !ok {
		return nil
	}
	if info, err := file.Stat(); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		return nil
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil
	}
	flags := 0
	failed := raw.Control(func(fd uintptr) { flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0) })
	if errors.Join(failed, err) != nil || flags&unix.O_NONBLOCK == 0 {
		return nil
	}
	p := &pipeWriter{raw: raw}
	p.write = func(fd uintptr) bool {
		p.n, p.err = unix.Write(int(fd), p.message)
		return true
	}
	return p
}

// tryWrite writes up to atomicWrite bytes, or reports false if there is no room for them.
func (p *pipeWriter) tryWrite(message []byte) (written bool, err error) {
	p.message = message
	defer func() { p.message = nil }()
	for {
		if err := p.raw.Write(p.write); err != nil {
			return false, err
		}
		switch {
		case errors.Is(p.err, unix.EINTR):
		case errors.Is(p.err, unix.EAGAIN):
			return false, nil
		case p.err != nil:
			return false, p.err
		case p.n < len(message):
			return false, io.ErrShortWrite
		default:
			return true, nil
		}
	}
}
