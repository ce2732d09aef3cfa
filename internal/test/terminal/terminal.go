// Package terminal runs a program in a pseudo-terminal, for tests of programs that talk to their user on a
// whole screen. A test sends keys and waits until the screen shows a text, as a user does:
//
//	term := terminal.Start(t, exec.Command("claude"))
//	term.Wait("Welcome")
//	term.Enter("Say hello.")
//	term.Wait("Hello!")
package terminal

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// The keys of a keyboard, for [Terminal.Send].
const (
	KeyEnter  = "\r"
	KeyEscape = "\x1b"
	KeyTab    = "\t"
	KeyUp     = "\x1b[A"
	KeyDown   = "\x1b[B"
	KeyCtrlC  = "\x03"
	KeyCtrlD  = "\x04"
)

// The size of the screen. It is large, so that lines are not broken and texts stay on the screen.
const (
	columns = 160
	rows    = 60
)

// deadline is how long the program may take for what a test waits for, even on a busy machine.
const deadline = time.Minute

// Terminal is a running program and its screen.
type Terminal struct {
	t    testing.TB
	file *os.File
	done chan struct{} // closed once the program has ended and all its output was read

	mu      sync.Mutex
	screen  *screen
	changed chan struct{} // closed and replaced with each output
}

// Start starts cmd in a terminal. The end of the test kills it with its process group, if it still runs.
func Start(t testing.TB, cmd *exec.Cmd) *Terminal {
	t.Helper()
	cmd.Env = append(cmd.Environ(), "TERM=xterm-256color")
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: columns, Rows: rows})
	must.OK(t, err)
	term := &Terminal{t: t, file: file, done: make(chan struct{}), changed: make(chan struct{}), screen: newScreen(columns, rows)}
	go term.read(cmd)
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails if all have ended
		<-term.done
		_ = file.Close()
	})
	return term
}

// read reads the program's output until it ends, and answers its questions about the terminal.
func (term *Terminal) read(cmd *exec.Cmd) {
	defer close(term.done)
	buffer := make([]byte, 32<<10)
	for {
		n, err := term.file.Read(buffer)
		term.mu.Lock()
		answer := term.screen.write(buffer[:n])
		close(term.changed)
		term.changed = make(chan struct{})
		term.mu.Unlock()
		if len(answer) > 0 {
			_, _ = term.file.Write(answer) // a program that has ended needs none
		}
		if err != nil { // EIO once no process has the terminal open
			_ = cmd.Wait()
			return
		}
	}
}

// Screen returns what the screen shows, without spaces at the ends of lines and empty lines at its end.
func (term *Terminal) Screen() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.String()
}

// Wait waits until the screen shows a text, and returns the screen.
func (term *Terminal) Wait(text string) string {
	term.t.Helper()
	return term.Until("the text "+text, func(screen string) bool { return strings.Contains(screen, text) })
}

// Gone waits until the screen no longer shows a text, and returns the screen.
func (term *Terminal) Gone(text string) string {
	term.t.Helper()
	return term.Until("no text "+text, func(screen string) bool { return !strings.Contains(screen, text) })
}

// Until waits until the screen is as a test wants it, and returns the screen. what names that for the
// failure. It looks after each output; so it can miss what a program shows only for a moment.
func (term *Terminal) Until(what string, ok func(screen string) bool) string {
	term.t.Helper()
	return term.until(what, deadline, ok)
}

// until is [Terminal.Until], which also looks at least once in every interval.
func (term *Terminal) until(what string, interval time.Duration, ok func(screen string) bool) string {
	term.t.Helper()
	for end := time.Now().Add(deadline); ; {
		term.mu.Lock()
		screen, changed := term.screen.String(), term.changed
		term.mu.Unlock()
		if ok(screen) {
			return screen
		}
		select {
		case <-changed:
			continue
		case <-term.done:
			if screen = term.Screen(); ok(screen) { // the last output
				return screen
			}
			term.t.Fatalf("the program has ended before %s:\n%s", what, screen)
		case <-time.After(min(interval, time.Until(end))):
		}
		if time.Now().After(end) {
			term.t.Fatalf("waited in vain for %s on this screen:\n%s", what, screen)
		}
	}
}

// Send types keys. Programs take several characters that come at once for a paste: an Enter
// behind them is a line break.
func (term *Terminal) Send(keys string) {
	term.t.Helper()
	_, err := term.file.WriteString(keys)
	must.OK(term.t, err)
}

// Enter types a line that the screen does not show yet, waits until it is there, and types Enter.
func (term *Terminal) Enter(line string) {
	term.t.Helper()
	term.Send(line)
	term.Wait(line)
	term.Send(KeyEnter)
}

// Press presses a key again and again, until the screen shows a text: some programs ignore keys for a moment
// after a question has appeared.
func (term *Terminal) Press(key, text string) {
	term.t.Helper()
	next := time.Now()
	term.until("the text "+text, time.Second/2, func(screen string) bool {
		if strings.Contains(screen, text) {
			return true
		}
		if !time.Now().Before(next) {
			term.Send(key)
			next = time.Now().Add(time.Second / 2)
		}
		return false
	})
}

// WaitEnd waits until the program has ended.
func (term *Terminal) WaitEnd() {
	term.t.Helper()
	select {
	case <-term.done:
	case <-time.After(deadline):
		term.t.Fatalf("the program does not end:\n%s", term.Screen())
	}
}
