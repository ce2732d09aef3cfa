// Command fakecodex is a `codex app-server` that plays recordings over stdin
// and stdout, for tests that need a real process:
//
//	fakecodex -transcripts testdata/transcripts [faults] app-server
//
// What it plays, and how, is told by the package internal/test/fakecodex. Arguments
// after the flags are ignored, so that it can stand wherever codex does, but
// for the other commands of codex, which it refuses. It ends with exit code 0
// when its input ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

func main() {
	code, err := run(os.Args[1:], &impatient{os.Stdin}, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakecodex:", err)
	}
	os.Exit(code)
}

// run serves until the input ends. It returns the exit code.
func run(args []string, stdin io.Reader, stdout io.Writer) (code int, err error) {
	var opts fakecodex.Options
	var dir, mute, log string
	flags := flag.NewFlagSet("fakecodex", flag.ContinueOnError)
	flags.StringVar(&dir, "transcripts", "", "the directory of the recordings")
	flags.StringVar(&opts.Default, "default", "", "the recording for turns that none matches; empty: they fail")
	flags.StringVar(&log, "log", "", "a file to which each message of the client's is appended")
	flags.StringVar(&mute, "mute", "", "methods that are never answered, with commas between them")
	faultFlags(flags, &opts.Faults)
	if err := flags.Parse(args); err != nil {
		return 2, nil // the flags have told
	}
	if command := flags.Arg(0); command != "" && command != "app-server" {
		return 2, fmt.Errorf("there is no playing of codex %s", command)
	}
	if mute != "" {
		opts.Faults.Mute = strings.Split(mute, ",")
	}
	if opts.Transcripts, err = fakecodex.Load(dir); err != nil {
		return 1, err
	}
	if log != "" {
		file, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return 1, err
		}
		defer file.Close()
		opts.Heard = func(line []byte) { _, _ = file.Write(append(line, '\n')) }
	}
	err = fakecodex.Serve(context.Background(), stdin, stdout, opts)
	if death := (*fakecodex.DeathError)(nil); errors.As(err, &death) {
		return death.Code, err
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}

// faultFlags are the flags that make it misbehave.
func faultFlags(flags *flag.FlagSet, f *fakecodex.Faults) {
	flags.StringVar(&f.DieAt, "die-at", "", "die when this method is called")
	flags.IntVar(&f.DieAfter, "die-after", 0, "die after so many messages")
	flags.IntVar(&f.ExitCode, "exit-code", 1, "the exit code of a death")
	flags.BoolVar(&f.Garbage, "garbage", false, "put lines that are no messages before each turn")
	flags.IntVar(&f.HugeLine, "huge-line", 0, "put a line of so many bytes before each turn")
	flags.BoolVar(&f.Unknown, "unknown", false, "begin turns with an unknown notification and request")
	flags.DurationVar(&f.Delay, "delay", 0, "pause before each message of a turn")
	flags.IntVar(&f.StallAfter, "stall-after", 0, "fall silent after so many messages of a turn")
	flags.StringVar(&f.Version, "codex-version", "", "claim to be this version")
	flags.BoolVar(&f.LoggedOut, "logged-out", false, "need a login")
	flags.IntVar(&f.Overload, "overload", 0, "refuse so many calls as overloaded")
}

// goodbye is how long a client may take to read what is left once it has
// ended the input. The real program does not wait at all.
const goodbye = time.Second

// impatient is an input whose end also ends the process, should the output be
// stuck.
type impatient struct{ io.Reader }

func (r *impatient) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if errors.Is(err, io.EOF) {
		time.AfterFunc(goodbye, func() { os.Exit(0) })
	}
	return n, err
}
