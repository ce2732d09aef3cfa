package codexrpc

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// A pipeReader is busy after so many reads within busyTime, so that one in some two
	// milliseconds keeps it busy.
	busyReads = 64
	busyTime  = 100 * time.Millisecond
	// busyWait is how long a busy pipeReader waits for data, in milliseconds, before it is
	// no longer busy.
	busyWait = 10
)

// busyPipes is how many pipeReaders of the process are busy: no more than half as many as
// there are processors, since what else can run may have to wait until the runtime takes
// the processor of a blocked thread.
var busyPipes atomic.Int32

// pipeReader reads from a pipe. As a rule its reads wait in the runtime's poller. For each
// message the runtime then wakes its monitor as well, since all of its processors were
// idle, and tries another read, which finds nothing. A busy pipeReader blocks its thread
// instead: with some hundred messages a second that saves a third of the CPU of each. With
// fewer it would cost several times as much, since the monitor watches the processor of the
// blocked thread.
type pipeReader struct {
	reads int // since the time of since
	since time.Time

	// Used by waitAndRead, which must not allocate.
	fds  [1]unix.PollFd
	into []byte
	n    int
	err  error
	poll func(fd uintptr) (done bool) // waitAndRead, as one value: each new one would be allocated

	mu     sync.Mutex // guards changes of what follows; only Read changes file and raw
	file   *os.File
	raw    syscall.RawConn // of file; nil: not busy
	closed bool
}

// newPipeReader returns a reader from r, which is r itself if that is no pipe.
func newPipeReader(r io.ReadCloser) io.ReadCloser {
	if file := pipeFile(r); file != nil {
		p := &pipeReader{file: file, since: time.Now()}
		p.poll = p.waitAndRead
		return p
	}
	return r
}

// pipeFile returns the file of a pipe, or nil if f is none.
func pipeFile(f any) *os.File {
	file, ok := f.(*os.File)
	if !ok {
		return nil
	}
	if info, err := file.Stat(); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		return nil
	}
	return file
}

// Read implements [io.Reader].
func (r *pipeReader) Read(p []byte) (int, error) {
	for r.raw != nil {
		runtime.Gosched() // what the last messages have woken would wait for another thread
		r.into = p
		if err := r.raw.Read(r.poll); err != nil {
			return 0, os.ErrClosed
		}
		switch {
		case errors.Is(r.err, unix.EINTR):
		case errors.Is(r.err, os.ErrDeadlineExceeded):
			if err := r.reopen(false); err == nil {
				busyPipes.Add(-1)
			} else if errors.Is(err, os.ErrClosed) {
				return 0, err
			}
		default:
			return r.n, r.err
		}
	}
	n, err := r.file.Read(p)
	if r.reads++; r.reads == busyReads {
		now := time.Now()
		if now.Sub(r.since) < busyTime {
			r.begin()
		}
		r.reads, r.since = 0, now
	}
	return n, err
}

// waitAndRead waits for data and reads it. Its result is in n and err.
func (r *pipeReader) waitAndRead(fd uintptr) (done bool) {
	r.n = 0
	r.fds[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	ready, err := unix.Poll(r.fds[:], busyWait)
	switch {
	case err != nil:
		r.err = err
		return true
	case ready == 0:
		r.err = os.ErrDeadlineExceeded
		return true
	}
	if r.n, r.err = unix.Read(int(fd), r.into); r.err != nil {
		r.n = 0
	} else if r.n == 0 {
		r.err = io.EOF
	}
	return true
}

// begin makes the reader busy if that is possible.
func (r *pipeReader) begin() {
	if int(busyPipes.Add(1)) > runtime.GOMAXPROCS(0)/2 || r.reopen(true) != nil {
		busyPipes.Add(-1)
	}
}

// reopen begins or ends the busy mode. The file is another one then, since the poller of
// the runtime watches a file until its end.
func (r *pipeReader) reopen(busy bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return os.ErrClosed
	}
	raw, err := r.file.SyscallConn()
	if err != nil {
		return err
	}
	var fd int
	failed := raw.Control(func(old uintptr) {
		if fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			err = unix.SetNonblock(fd, !busy)
		}
	})
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	_ = r.file.Close()
	r.file, r.raw = os.NewFile(uintptr(fd), r.file.Name()), nil // in the poller only if it does not block
	if busy {
		r.raw, err = r.file.SyscallConn()
	}
	return err
}

// Close ends a Read under way, a busy one within busyWait.
func (r *pipeReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.raw != nil && !r.closed {
		busyPipes.Add(-1)
	}
	r.closed = true
	return r.file.Close()
}

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
	file := pipeFile(w)
	if file == nil {
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
