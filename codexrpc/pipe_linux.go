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

	// Used by poll, which must not allocate.
	fds  [1]unix.PollFd
	into []byte
	n    int
	err  error

	mu     sync.Mutex // guards changes of what follows; only Read changes file and raw
	file   *os.File
	raw    syscall.RawConn // of file; nil: not busy
	closed bool
}

// newPipeReader returns a reader from r, which is r itself if that is no pipe.
func newPipeReader(r io.ReadCloser) io.ReadCloser {
	file, ok := r.(*os.File)
	if !ok {
		return r
	}
	if info, err := file.Stat(); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		return r
	}
	return &pipeReader{file: file, since: time.Now()}
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

// poll waits for data and reads it. Its result is in n and err.
func (r *pipeReader) poll(fd uintptr) (done bool) {
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
