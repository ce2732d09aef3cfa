package appserver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// keptLines and keptLineBytes bound what is remembered of a process's stderr
// to explain its exit; maxLogLine is where a line is cut in the log.
const (
	keptLines     = 5
	keptLineBytes = 300
	maxLogLine    = 8 << 10
)

// Of a process's stderr no more than logLines and logBytes go into the log in
// each logWindow, in full lines: a process that writes endlessly is not to fill
// the disk.
const (
	logLines  = 200
	logBytes  = 64 << 10
	logWindow = 10 * time.Second
)

// stderrLog copies a process's stderr into the log, line by line and with a
// limit, and keeps the last lines.
type stderrLog struct {
	window window
	mu     sync.Mutex
	last   []string
}

// copy reads until r ends.
func (s *stderrLog) copy(r io.Reader, log func() *slog.Logger) {
	br := bufio.NewReaderSize(r, maxLogLine)
	cut := false
	for {
		line, err := br.ReadSlice('\n')
		if text := strings.TrimSpace(string(line)); text != "" && !cut {
			s.keep(text)
			s.add(text, log())
		}
		// The rest of a line that is too long is dropped up to its end.
		cut = errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !cut {
			logDropped(s.window.dropped, log())
			return
		}
	}
}

// add logs a line unless there were too many. It says so at the first that is
// dropped, and how many there were as soon as lines are logged again.
func (s *stderrLog) add(line string, log *slog.Logger) {
	logDropped(s.window.renew(time.Now()), log)
	if s.window.take(len(line)) {
		log.LogAttrs(context.Background(), slog.LevelInfo, "codex stderr", slog.String("line", line))
	} else if s.window.dropped == 1 {
		log.Warn("codex writes too much to its stderr; lines are dropped", "lines", logLines, "bytes", logBytes, "within", logWindow.String())
	}
}

// logDropped says how many lines were not logged, if there were any.
func logDropped(lines int, log *slog.Logger) {
	if lines > 0 {
		log.Warn("lines of codex's stderr were dropped", "lines", lines)
	}
}

// window counts what is logged within some time.
type window struct {
	end     time.Time
	lines   int // that are left
	bytes   int // that are left
	dropped int // lines
}

// renew begins a window if the last one is over, and returns how many lines were
// dropped in that.
func (w *window) renew(now time.Time) (dropped int) {
	if now.Before(w.end) {
		return 0
	}
	dropped = w.dropped
	*w = window{end: now.Add(logWindow), lines: logLines, bytes: logBytes}
	return dropped
}

// take reports whether a line has room in the window. Once one has none, no later
// line has.
func (w *window) take(bytes int) bool {
	if w.dropped > 0 || w.lines == 0 || w.bytes < bytes {
		w.dropped++
		return false
	}
	w.lines--
	w.bytes -= bytes
	return true
}

func (s *stderrLog) keep(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line = cut(line, keptLineBytes)
	if len(s.last) == keptLines {
		s.last = append(s.last[:0], s.last[1:]...)
	}
	s.last = append(s.last, line)
}

// tail returns the last lines, for an error message.
func (s *stderrLog) tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.last, " | ")
}

// cut shortens a text to so many bytes and marks it.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes], "") + "…"
}
