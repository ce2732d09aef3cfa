package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// codeLife is how long the provider takes a code.
	codeLife = 15 * time.Minute
	// codePatience bounds how long an answer waits for a code.
	codePatience = 20 * time.Second
	// maxOutput bounds what is kept of codex's output, in bytes, but for the last piece.
	maxOutput = 64 << 10
)

// signIns are sign-ins by a code that is entered in a browser, begun at the terminal or in a chat. One
// runs at a time.
type signIns struct {
	ctx   context.Context // ends them
	codex string
	done  chan struct{} // closed when one has made a login

	mu   sync.Mutex
	last *signIn // nil: there was none
}

// signIn is one sign-in.
type signIn struct {
	output bytes.Buffer  // of codex
	known  chan struct{} // closed when there is a code, or the end without one
	ended  chan struct{} // closed at the end
	err    error         // set at the end

	// These are set before known is closed; empty: codex has ended without a code.
	url, code string
	until     time.Time
}

func newSignIns(ctx context.Context, codex string) *signIns {
	return &signIns{ctx: ctx, codex: codex, done: make(chan struct{})}
}

// begin returns the sign-in that runs or has made a login. If there is none, it begins one, and also
// returns the one before, which has failed, or nil.
func (s *signIns) begin() (one, failed *signIn, begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && !s.last.failed() {
		return s.last, nil, false
	}
	failed, s.last = s.last, &signIn{known: make(chan struct{}), ended: make(chan struct{})}
	go s.run(s.last)
	return s.last, failed, true
}

// run lets codex sign the user in, and prints what it says.
func (s *signIns) run(one *signIn) {
	cmd := exec.CommandContext(s.ctx, s.codex, "login", "--device-auth")
	out := io.MultiWriter(os.Stdout, one)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
	one.err = cmd.Run()
	close(one.ended)
	if one.code == "" {
		close(one.known)
	}
	switch {
	case one.err == nil:
		close(s.done)
	case s.ctx.Err() == nil:
		fmt.Printf("The sign-in has failed (%v). To try it again, press Enter, or write \"log in\" in a chat.\n", one.err)
	}
}

func (one *signIn) failed() bool {
	select {
	case <-one.ended:
		return one.err != nil
	default:
		return false
	}
}

var (
	colors   = regexp.MustCompile("\x1b\\[[0-9;]*m")
	codeInIt = regexp.MustCompile(`(?s)(https://\S+).*?\n\s*([A-Z0-9]{3,}-[A-Z0-9]{3,})\n`)
)

// Write takes what codex prints, and looks for the address and the code.
func (one *signIn) Write(p []byte) (int, error) {
	if one.output.Len() < maxOutput {
		one.output.Write(p)
	}
	if one.code == "" {
		if match := codeInIt.FindStringSubmatch(one.text()); match != nil {
			one.url, one.code, one.until = match[1], match[2], time.Now().Add(codeLife)
			close(one.known)
		}
	}
	return len(p), nil
}

func (one *signIn) text() string { return colors.ReplaceAllString(one.output.String(), "") }

// reason is the last line of a sign-in that has failed.
func (one *signIn) reason() string {
	lines := strings.Split(strings.TrimSpace(one.text()), "\n")
	return fmt.Sprintf("%s (%v)", strings.TrimSpace(lines[len(lines)-1]), one.err)
}

// fromTerminal begins a sign-in, or says again what the one that runs waits for.
func (s *signIns) fromTerminal() {
	one, _, begun := s.begin()
	select {
	case <-one.known:
		if !begun && one.code != "" {
			fmt.Printf("Enter the code %s at %s\n", one.code, one.url)
		}
	default: // codex prints it
	}
}

// fromChat begins a sign-in unless one runs, and returns in Markdown how to go on.
func (s *signIns) fromChat() string {
	one, failed, begun := s.begin()
	if begun {
		printStage("somebody wants to log in, in a chat:")
	}
	select {
	case <-one.known:
	case <-time.After(codePatience):
		return "Codex has got no code for the sign-in yet. Is the network there? Write *log in* again in a moment."
	}
	select {
	case <-one.ended:
		if one.err == nil {
			return "You are logged in: the next answers come from your plan."
		}
		return fmt.Sprintf("The sign-in has failed. Codex says:\n\n```text\n%s\n```\n\nIs the network there? Write *log in* to try it again.", one.reason())
	default:
	}
	answer := ""
	if failed != nil {
		answer = fmt.Sprintf("The last sign-in ended without a login; perhaps its code had expired. Codex says: `%s`. Here is another code.\n\n", failed.reason())
	}
	left := time.Until(one.until).Round(time.Minute).Minutes()
	return answer + fmt.Sprintf(`To sign in with your ChatGPT plan:

1. Open <%s> in a browser.
2. Enter the code `+"`%s`"+`, and show it to nobody else. It is valid for %.0f minutes, until %s.

When that is done, the next answers here come from your plan.`, one.url, one.code, left, one.until.Format("15:04"))
}
