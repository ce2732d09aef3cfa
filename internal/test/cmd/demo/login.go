package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// loginPause is the pause between looks for a login that another program has made.
const loginPause = time.Second

// interactive reports whether a person at a terminal can press Enter: not if the demo is in the background.
func interactive() bool {
	stdin := int(os.Stdin.Fd())
	foreground, err := unix.IoctlGetInt(stdin, unix.TIOCGPGRP)
	return term.IsTerminal(stdin) && err == nil && foreground == unix.Getpgrp()
}

const demoAnswers = "there is no Codex login, so the built-in demo model answers: "

// loginOffer says in one line what answers, and how to use the own plan.
func loginOffer(codex string, interactive bool) string {
	if interactive {
		return demoAnswers + `press Enter, or write "log in" in a chat, to sign in with your ChatGPT plan`
	}
	if found, err := exec.LookPath("codex"); err == nil && found == codex {
		codex = "codex"
	} else if here, err := os.Getwd(); err == nil {
		if short, err := filepath.Rel(here, codex); err == nil && len(short) < len(codex) {
			codex = short
		}
	}
	return demoAnswers + "write \"log in\" in a chat, or run `" + codex + " login`, to use your ChatGPT plan"
}

// hasLogin reports whether codex has the user's login.
func hasLogin(ctx context.Context, codex string) bool {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, codex, "login", "status").Run() == nil
}

// awaitLogin waits until the user has a login, by one of these sign-ins, which Enter at the terminal
// also begins, or made elsewhere. It returns false if ctx ends before.
func awaitLogin(ctx context.Context, signIns *signIns, interactive bool) bool {
	var enter <-chan struct{}
	if interactive {
		enter = readLines(ctx)
	}
	last := loginFile()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-signIns.done:
			return true
		case _, ok := <-enter:
			if !ok {
				enter = nil // the terminal is gone
			} else {
				signIns.fromTerminal()
			}
		case <-time.After(loginPause):
			now := loginFile()
			if now != last && hasLogin(ctx, signIns.codex) {
				return true
			}
			last = now
		}
	}
}

// loginFile returns when the file with the user's login was changed; zero: there is none.
func loginFile() time.Time {
	home := os.Getenv("CODEX_HOME")
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return time.Time{}
		}
		home = filepath.Join(user, ".codex")
	}
	info, err := os.Stat(filepath.Join(home, "auth.json"))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// readLines reads the lines of standard input. Its goroutine ends with the process, since nothing
// ends a read from a terminal.
func readLines(ctx context.Context) <-chan struct{} {
	signal.Ignore(syscall.SIGTTIN) // in the background, a read then fails instead of stopping the demo
	lines := make(chan struct{})
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			select {
			case lines <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}
