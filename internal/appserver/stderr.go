package appserver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// The last keptLines lines, each cut to keptLineBytes bytes, explain an exit. maxLogLine bounds a logged
// line, in bytes.
const (
	keptLines     = 5
	keptLineBytes = 300
	maxLogLine    = 8 << 10
)

// logLines and logBytes bound the logged lines in each logWindow, so that a program that writes
// without end does not fill the disk.
const (
	logLines  = 200
	logBytes  = 64 << 10
	logWindow = 10 * time.Second
)

// stderrLog logs the stderr of a program line by line, up to a rate limit. It also keeps the last
// lines to explain an exit.
type stderrLog struct {
	windowEnd            time.Time // the end of the window in which lines are counted
	linesLeft, bytesLeft int       // how many may still be logged in the window
	dropped              int       // lines that were not logged in the window

	mu         sync.Mutex
	lastLines  []string
	starting   bool     // lines go to startLines, until the result of the start is logged
	startLines []string // at most logLines lines of the start
}

// copy reads the lines of r until r ends. It logs each line, and keeps the last lines for tail. It
// skips lines with sandboxWarning, and lines for which handleLine returns true.
func (s *stderrLog) copy(r io.Reader, log func() *slog.Logger, handleLine func(line string) bool) {
	br := bufio.NewReaderSize(r, maxLogLine)
	continued := false
	for {
		line, err := br.ReadSlice('\n')
		if text := strings.TrimSpace(string(line)); text != "" && !continued && !strings.Contains(text, sandboxWarning) && !handleLine(text) {
			s.addLastLine(text)
			s.logWithinLimit(text, log())
		}
		// The rest of a line that is too long is dropped.
		continued = errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !continued {
			s.logDropped(log())
			return
		}
	}
}

// logWithinLimit logs a line, or drops it if the limit of the logWindow is reached. It warns at the
// first dropped line. In the next window, it logs how many lines were dropped. During the start, it
// keeps lines for logStartLines.
func (s *stderrLog) logWithinLimit(line string, log *slog.Logger) {
	if now := time.Now(); !now.Before(s.windowEnd) {
		s.logDropped(log)
		s.windowEnd, s.linesLeft, s.bytesLeft = now.Add(logWindow), logLines, logBytes
	}
	switch {
	case s.dropped > 0:
		s.dropped++
	case s.linesLeft == 0 || s.bytesLeft < len(line):
		s.dropped++
		log.Warn("codex writes too much to its stderr; lines are dropped", "lines", logLines, "bytes", logBytes, "within", logWindow.String())
	default:
		s.linesLeft--
		s.bytesLeft -= len(line)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.starting && len(s.startLines) < logLines {
			s.startLines = append(s.startLines, line)
		} else {
			logLine(line, log)
		}
	}
}

func (s *stderrLog) logDropped(log *slog.Logger) {
	if s.dropped > 0 {
		log.Warn("lines of codex's stderr were dropped", "lines", s.dropped)
		s.dropped = 0
	}
}

func logLine(line string, log *slog.Logger) {
	log.LogAttrs(context.Background(), slog.LevelInfo, "codex stderr", slog.String("line", line))
}

// logStartLines logs the lines of the start. Later lines are logged immediately.
func (s *stderrLog) logStartLines(log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.startLines {
		logLine(line, log)
	}
	s.starting, s.startLines = false, nil
}

// sandboxWarning is part of a line that Codex writes at each start on many machines. The line is
// not logged, since this client does not use Codex's sandbox.
const sandboxWarning = "could not find bubblewrap on PATH"

var (
	logPrefix = regexp.MustCompile(`^\d{4}-\d\d-\d\dT[0-9:.]+Z +[A-Z]+ +[\w:]+: `)
	// backtrace matches a line of a backtrace, of Codex or of the launcher of its package.
	backtrace = regexp.MustCompile(`^(?i:stack backtrace:)$|^\d+: +\S|^at (?:\S+:\d|.+\))`)
)

func (s *stderrLog) addLastLine(line string) {
	if backtrace.MatchString(line) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastLines = append(s.lastLines, wirejson.Truncate(logPrefix.ReplaceAllString(line, ""), keptLineBytes))
	s.lastLines = s.lastLines[max(0, len(s.lastLines)-keptLines):]
}

func (s *stderrLog) tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lastLines, " | ")
}

// HeededLog is a value of RUST_LOG. It makes Codex log what no message of the protocol reports: the
// results of WebSocket handshakes and requests to the model's provider, and the headers of the
// provider's answers. This package reads these lines and does not log them.
const HeededLog = "codex_otel.trace_safe[{error.message}]=info,codex_http_client::client[{headers}]=debug"

var (
	// requestLine matches a log line about a request or a handshake. answerLine matches a log line
	// about an answer of the provider.
	requestLine = regexp.MustCompile(`^\S+ +INFO codex_otel\.trace_safe: event\.name="codex\.`)
	answerLine  = regexp.MustCompile(`^\S+ +DEBUG codex_http_client::client: Request completed `)

	// socketRefusalLine matches a line about a WebSocket that the provider has refused: the
	// handshake with 429 (a rate limit), or a request over it with 429 or 503 (an overload). The
	// first group is the status 503, or empty for 429; the second is the thread's id.
	socketRefusalLine = regexp.MustCompile(`event\.name="codex\.(?:websocket_connect" .* http\.response\.status_code=429 |` +
		`sse_event" .*error\.message=(?:exceeded retry limit, last status: 429|unexpected status (503)) ).* conversation\.id=([0-9a-f-]+) app\.version=`)
	// retryAfterPattern captures the seconds that the provider asks the client to wait.
	retryAfterPattern = regexp.MustCompile(`/responses status=(?:429|503) .*"retry-after": "(\d{1,9})"`)
)

// ErrSocketLimited and ErrSocketOverloaded are the failures of a turn whose WebSocket the provider
// has refused, because of a rate limit or of an overload. See [IsSocketRefused].
var (
	ErrSocketLimited error = &codexrpc.TurnError{
		Message: "the model's provider limits the rate: it refuses a WebSocket with 429 Too Many Requests",
		Code:    "responseTooManyFailedAttempts", HTTPStatus: http.StatusTooManyRequests,
	}
	ErrSocketOverloaded error = &codexrpc.TurnError{
		Message: "the model's provider is overloaded: it refuses a request over a WebSocket with 503 Service Unavailable",
		Code:    "serverOverloaded", HTTPStatus: http.StatusServiceUnavailable,
	}
)

// IsSocketRefused reports whether a turn has failed with ErrSocketLimited or ErrSocketOverloaded.
// The caller can try such a turn again over HTTP: the provider may answer, or say how long to wait.
func IsSocketRefused(err error) bool {
	return errors.Is(err, ErrSocketLimited) || errors.Is(err, ErrSocketOverloaded)
}

// handleLogLine records how long the provider asks to wait. If the provider has refused the WebSocket of a
// thread, handleLogLine calls fail for that thread. Otherwise Codex would wait as long as the provider
// asks, perhaps a minute, and then try HTTP, and the client would get no event until then. requested
// reports whether Codex writes the line only because of HeededLog.
func (in *instance) handleLogLine(line string, fail func(thread string, failure error)) (requested bool) {
	switch {
	case answerLine.MatchString(line):
		if found := retryAfterPattern.FindStringSubmatch(line); found != nil {
			seconds, _ := strconv.Atoi(found[1]) // it has nine digits at most
			now := time.Now()
			in.wait.Store(&askedWait{now, now.Add(time.Duration(seconds) * time.Second)})
		}
		return true
	case requestLine.MatchString(line):
		if found := socketRefusalLine.FindStringSubmatch(line); found != nil && found[1] != "" {
			fail(found[2], ErrSocketOverloaded)
		} else if found != nil {
			fail(found[2], ErrSocketLimited)
		}
		return true
	}
	return false
}
