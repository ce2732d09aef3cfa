package codexrpc

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// keptLines and keptLineBytes bound what is remembered of a process's stderr
// to explain its exit; maxLogLine is where a line is cut in the log.
const (
	keptLines     = 5
	keptLineBytes = 300
	maxLogLine    = 8 << 10
)

// stderrLog copies a process's stderr into the log, line by line, and keeps
// the last lines.
type stderrLog struct {
	mu   sync.Mutex
	last []string
}

// copy reads until r ends.
func (s *stderrLog) copy(r io.Reader, log func() *slog.Logger) {
	br := bufio.NewReaderSize(r, maxLogLine)
	cut := false
	for {
		line, err := br.ReadSlice('\n')
		if text := strings.TrimSpace(string(line)); text != "" && !cut {
			s.keep(text)
			log().LogAttrs(context.Background(), slog.LevelInfo, "codex stderr", slog.String("line", text))
		}
		// The rest of a line that is too long is dropped up to its end.
		cut = errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !cut {
			return
		}
	}
}

func (s *stderrLog) keep(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(line) > keptLineBytes {
		line = strings.ToValidUTF8(line[:keptLineBytes], "") + "…"
	}
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
