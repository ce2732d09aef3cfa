package appserver

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/logbook"
)

func nothingHeeded(string) bool { return false }

// copyStderr copies text in one-byte reads and returns the log and the tail.
func copyStderr(text string) (logged, tail string) {
	book := new(logbook.Book)
	var s stderrLog
	s.copy(iotest.OneByteReader(strings.NewReader(text)), book.Logger, nothingHeeded)
	return book.String(), s.tail()
}

func TestStderrLines(t *testing.T) {
	logged, tail := copyStderr("one\n\n  two \r\n\xff bad utf-8\nlast without an end")
	if n := strings.Count(logged, "\n"); n != 4 {
		t.Errorf("%d lines are logged:\n%s", n, logged)
	}
	for _, line := range []string{"line=one", "line=two", "last without an end"} {
		if !strings.Contains(logged, line) {
			t.Errorf("%q is not logged:\n%s", line, logged)
		}
	}
	if !strings.HasPrefix(tail, "one | two | ") || !strings.HasSuffix(tail, " | last without an end") {
		t.Errorf("the tail is %q", tail)
	}
}

// A long line is cut in the log, and the next one is a line of its own.
func TestLongStderrLines(t *testing.T) {
	for _, n := range []int{maxLogLine - 1, maxLogLine, maxLogLine + 1, 3 * maxLogLine, 40*maxLogLine + 7} {
		logged, tail := copyStderr("<" + strings.Repeat("é", n/2) + ">\nnext\n")
		if lines := strings.Split(strings.TrimSpace(logged), "\n"); len(lines) != 2 || !strings.Contains(lines[1], "line=next") {
			t.Errorf("%d bytes: %d lines are logged, the last is %.100q", n, len(lines), lines[len(lines)-1])
		}
		if len(logged) > 2*maxLogLine {
			t.Errorf("%d bytes: %d are logged", n, len(logged))
		}
		if len(tail) > keptLineBytes+len("… | next") || !strings.HasSuffix(tail, "… | next") || !strings.HasPrefix(tail, "<éé") {
			t.Errorf("%d bytes: the tail is %q", n, tail)
		}
	}
}

// TestEndlessStderr checks that only a part of an endless stderr is logged, with the
// number of dropped lines, and that the last lines are kept.
func TestEndlessStderr(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := new(logbook.Book)
		r, w := io.Pipe()
		var s stderrLog
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.copy(r, book.Logger, nothingHeeded)
		}()
		write := func(lines int, of string) {
			for i := range lines {
				fmt.Fprintf(w, "%s %d\n", of, i)
			}
			synctest.Wait()
		}
		write(3*logLines, "short")
		checkLogged(t, book, "line=\"short ", logLines)
		checkLogged(t, book, "lines are dropped", 1)
		time.Sleep(logWindow)
		checkLogged(t, book, "were dropped", 0)
		write(1, "later")
		checkLogged(t, book, "line=\"later 0\"", 1)
		checkLogged(t, book, fmt.Sprintf("were dropped\" lines=%d\n", 2*logLines), 1)
		time.Sleep(logWindow)
		write(logLines, strings.Repeat("x", 4<<10)) // too many bytes
		if n := len(book.String()); n > 2*logBytes+100*logLines {
			t.Errorf("%d bytes are logged", n)
		}
		_ = w.Close()
		<-done
		checkLogged(t, book, "were dropped", 2)
		if tail := s.tail(); strings.Count(tail, " | ") != keptLines-1 || !strings.HasPrefix(tail, "xxx") {
			t.Errorf("the tail is %.50q", tail)
		}
	})
}

// TestStderrOfAStart checks that lines are held until the start has ended, that no more
// than logLines are, and that a reason has no lines that explain nothing.
func TestStderrOfAStart(t *testing.T) {
	book := new(logbook.Book)
	s := stderrLog{starting: true}
	s.copy(strings.NewReader("2026-11-22T08:01:46.248748Z ERROR codex_app_server: Codex could not find bubblewrap on PATH. Install it.\n"+
		"2026-11-22T07:58:50.850934Z ERROR codex_core::config: no provider x\nStack backtrace:\n  12: std::rt::lang_start\n        at /rustc/rt.rs:1\n"), book.Logger, nothingHeeded)
	if book.String() != "" {
		t.Errorf("it is logged while it starts:\n%s", book)
	}
	if tail := s.tail(); tail != "no provider x" {
		t.Errorf("the tail is %q", tail)
	}
	s.logStartLines(book.Logger())
	s.copy(strings.NewReader("later\n"), book.Logger, nothingHeeded)
	if got := book.String(); strings.Contains(got, "bubblewrap") || strings.Count(got, "\n") != 5 || !strings.HasSuffix(got, "line=later\n") {
		t.Errorf("the log is\n%s", got)
	}
	s = stderrLog{starting: true}
	for range 2 {
		for range logLines {
			s.logWithinLimit("x", book.Logger())
		}
		s.windowEnd = time.Time{} // as if the window were over
	}
	if logged := strings.Count(book.String(), "line=x\n"); len(s.startLines) != logLines || logged != logLines {
		t.Errorf("%d lines are held, %d are logged", len(s.startLines), logged)
	}
}

func checkLogged(t *testing.T, book *logbook.Book, what string, times int) {
	t.Helper()
	if n := strings.Count(book.String(), what); n != times {
		t.Errorf("%q is logged %d times, want %d", what, n, times)
	}
}

func TestStderrTail(t *testing.T) {
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	if _, tail := copyStderr(text.String()); tail != "line 95 | line 96 | line 97 | line 98 | line 99" {
		t.Errorf("the tail is %q", tail)
	}
	if _, tail := copyStderr(""); tail != "" {
		t.Errorf("the tail of nothing is %q", tail)
	}
}

// TestHeed checks which lines of Codex's log are read, and what they say.
func TestHeed(t *testing.T) {
	const (
		socket = "2026-11-24T14:17:58.456253Z  INFO codex_otel.trace_safe: event.name=\"codex.websocket_connect\" duration_ms=47 "
		status = "http.response.status_code="
		thread = " success=\"false\" error.message=\"x\" auth.reauth=false conversation.id=01a20deb-ab81-7460-ad74-c2f4c64cfbf6 app.version=0.169.0"
		event  = "2026-11-24T14:17:58.456253Z  INFO codex_otel.trace_safe: event.name=\"codex.sse_event\" event.kind=response.completed error.message="
		ended  = " event.timestamp=2026-11-24T14:17:58.456Z conversation.id=01a20deb-ab81-7460-ad74-c2f4c64cfbf6 app.version=0.169.0"
		answer = "2026-11-24T14:18:04.521885Z DEBUG codex_http_client::client: Request completed method=POST url=https://chatgpt.com/backend-api/codex/"
		after  = ` headers={"content-type": "application/json", "retry-after": "6", "content-length": "87"} version=HTTP/2.0`
	)
	type said struct {
		read    bool  // Codex writes the line only because of HeededLog
		waits   bool  // it says how long to wait
		refused error // why a WebSocket is refused
	}
	for line, want := range map[string]said{
		socket + status + "429" + thread: {read: true, refused: ErrSocketLimited},
		socket + status + "426" + thread: {read: true},
		socket + thread:                  {read: true},
		event + "exceeded retry limit, last status: 429 Too Many Requests" + ended:                                  {read: true, refused: ErrSocketLimited},
		event + "unexpected status 503 Service Unavailable: busy" + ended:                                           {read: true, refused: ErrSocketOverloaded},
		event + "unexpected status 500 Internal Server Error: busy" + ended:                                         {read: true},
		event + "The model has said: unexpected" + ended:                                                            {read: true},
		answer + "responses status=429 Too Many Requests" + after:                                                   {read: true, waits: true},
		answer + "responses status=503 Service Unavailable" + after:                                                 {read: true, waits: true},
		answer + "responses status=200 OK" + after:                                                                  {read: true},
		answer + "models status=429 Too Many Requests" + after:                                                      {read: true},
		answer + "responses status=429 Too Many Requests headers={} version=HTTP/2.0":                               {read: true},
		"2026-11-24T15:05:13.814Z ERROR codex_login::auth::manager: Failed to refresh token":                        {},
		"2026-11-24T14:17:58.456Z ERROR codex_api: failed to connect to Responses WebSocket":                        {},
		"quoted: " + socket + status + "429" + thread:                                                               {},
		"2026-11-24T14:17:58.456Z DEBUG session_loop{a=1}: codex_http_client::client: Request completed status=200": {},
	} {
		in, failed := &instance{}, ""
		read := in.handleLogLine(line, func(thread string, failure error) {
			if failed = thread; failure != want.refused {
				t.Errorf("%q: %v", line, failure)
			}
		})
		if read != want.read || (in.wait.Load() != nil) != want.waits || (failed == "01a20deb-ab81-7460-ad74-c2f4c64cfbf6") != (want.refused != nil) {
			t.Errorf("%q: %t, thread %q", line, read, failed)
		}
	}
}
