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
)

// keptLines and keptLineBytes bound the last lines that stderrLog keeps to explain an exit.
// maxLogLine is how many bytes of a line are logged.
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
	end          time.Time // the end of the window in which lines are counted
	lines, bytes int       // how many may still be logged in the window
	dropped      int       // lines that were not logged

	mu      sync.Mutex
	last    []string
	holding bool     // the program is starting: its lines are held, so that the reason of a failed start is logged first
	held    []string // the lines that were written while holding was true
}

// copy logs the lines of r until r ends, except those for which heed returns true.
func (s *stderrLog) copy(r io.Reader, log func() *slog.Logger, heed func(line string) bool) {
	br := bufio.NewReaderSize(r, maxLogLine)
	cut := false
	for {
		line, err := br.ReadSlice('\n')
		if text := strings.TrimSpace(string(line)); text != "" && !cut && !strings.Contains(text, sandboxWarning) && !heed(text) {
			s.keep(text)
			s.add(text, log())
		}
		// The rest of a line that is too long is dropped.
		cut = errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !cut {
			s.logDropped(log())
			return
		}
	}
}

// add logs a line, or drops it if the limit of the logWindow is reached. It warns at the first
// dropped line. In the next window, it logs how many lines were dropped.
func (s *stderrLog) add(line string, log *slog.Logger) {
	if now := time.Now(); !now.Before(s.end) {
		s.logDropped(log)
		s.end, s.lines, s.bytes = now.Add(logWindow), logLines, logBytes
	}
	switch {
	case s.dropped > 0:
		s.dropped++
	case s.lines == 0 || s.bytes < len(line):
		s.dropped++
		log.Warn("codex writes too much to its stderr; lines are dropped", "lines", logLines, "bytes", logBytes, "within", logWindow.String())
	default:
		s.lines--
		s.bytes -= len(line)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.holding && len(s.held) < logLines {
			s.held = append(s.held, line)
		} else {
			logLine(line, log)
		}
	}
}

// logDropped logs how many lines were dropped in the window, if any.
func (s *stderrLog) logDropped(log *slog.Logger) {
	if s.dropped > 0 {
		log.Warn("lines of codex's stderr were dropped", "lines", s.dropped)
		s.dropped = 0
	}
}

func logLine(line string, log *slog.Logger) {
	log.LogAttrs(context.Background(), slog.LevelInfo, "codex stderr", slog.String("line", line))
}

// release logs the held lines. From then on, lines are logged at once.
func (s *stderrLog) release(log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.held {
		logLine(line, log)
	}
	s.holding, s.held = false, nil
}

// sandboxWarning is part of a line that Codex writes at each start on many machines. The line is
// not logged, since this client does not use Codex's sandbox.
const sandboxWarning = "could not find bubblewrap on PATH"

var (
	// logPrefix matches the beginning of a line of Codex's log.
	logPrefix = regexp.MustCompile(`^\d{4}-\d\d-\d\dT[0-9:.]+Z +[A-Z]+ +[\w:]+: `)
	// backtrace matches a line of a backtrace, of Codex or of the launcher of its package.
	backtrace = regexp.MustCompile(`^(?i:stack backtrace:)$|^\d+: +\S|^at (?:\S+:\d|.+\))`)
)

// keep adds a line to s.last. It skips the lines of a backtrace.
func (s *stderrLog) keep(line string) {
	if backtrace.MatchString(line) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = append(s.last, cut(logPrefix.ReplaceAllString(line, ""), keptLineBytes))
	s.last = s.last[max(0, len(s.last)-keptLines):]
}

// tail returns the last lines of stderr, joined to one line.
func (s *stderrLog) tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.last, " | ")
}

// cut returns text. If text is longer than bytes, cut returns its beginning and an ellipsis.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes], "") + "…"
}

// HeededLog is a value of RUST_LOG. It makes Codex log what no message of the protocol reports: the
// results of WebSocket handshakes and requests to the model's provider, and the headers of the
// provider's answers. heed reads these lines; stderrLog does not log them.
const HeededLog = "codex_otel.trace_safe[{error.message}]=info,codex_http_client::client[{headers}]=debug"

var (
	// asked matches a log line about a request or a handshake. answered matches a log line about an
	// answer of the provider.
	asked    = regexp.MustCompile(`^\S+ +INFO codex_otel\.trace_safe: event\.name="codex\.`)
	answered = regexp.MustCompile(`^\S+ +DEBUG codex_http_client::client: Request completed `)

	// refusal matches a line about a WebSocket that the provider has refused: its handshake (429,
	// a rate limit), or a request over it (429, or 503, an overload). It captures the thread's id.
	refusal = regexp.MustCompile(`event\.name="codex\.(?:websocket_connect" .* http\.response\.status_code=429 |` +
		`sse_event" .*error\.message=(?:exceeded retry limit, last status: 429|unexpected status (503)) ).* conversation\.id=([0-9a-f-]+) app\.version=`)
	// askedToWait captures the seconds that the provider asks to wait.
	askedToWait = regexp.MustCompile(`/responses status=(?:429|503) .*"retry-after": "(\d{1,9})"`)
)

// ErrSocketLimited is the failure of a turn whose WebSocket the provider has refused because of a
// rate limit. ErrSocketOverloaded is the failure if the provider was overloaded. See
// [IsSocketRefused].
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

// heed reads a line of Codex's log. If the line reports that the provider has refused a WebSocket,
// heed fails the thread's turn. only reports whether Codex writes the line just because of
// HeededLog.
//
// Without heed, Codex would first wait as long as the provider asks, perhaps a minute, and then try
// HTTP. Until then, the client would get no event.
func (in *instance) heed(line string) (only bool) {
	switch {
	case answered.MatchString(line):
		if found := askedToWait.FindStringSubmatch(line); found != nil {
			seconds, _ := strconv.Atoi(found[1]) // it has nine digits at most
			in.conn.AskedToWait(time.Duration(seconds) * time.Second)
		}
		return true
	case asked.MatchString(line):
		if thread, refused := refusedSocket(line); refused != nil {
			in.conn.FailBeginning(thread, refused)
		}
		return true
	}
	return false
}

// refusedSocket reads a line of Codex's log. If the line reports a refused WebSocket, refusedSocket
// returns the thread and the failure of its turn. For other lines, failure is nil.
func refusedSocket(line string) (thread string, failure error) {
	switch found := refusal.FindStringSubmatch(line); {
	case found == nil:
		return "", nil
	case found[1] != "":
		return found[2], ErrSocketOverloaded
	default:
		return found[2], ErrSocketLimited
	}
}
