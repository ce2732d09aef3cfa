// Command record makes the recordings of `codex app-server` that tests replay. It runs the real
// program against the scripted model on loopback, without the network; without a login, and with
// one behind the back end of a plan, whose recordings have directories of their own:
//
//	go run ./internal/test/cmd/record -codex /path/to/codex
//
// Each scenario uses the code of the product: internal/chat plans the request, codexrpc runs the
// turn, and a transport in between records both directions. Ids, times, ports and paths are
// replaced, so that a new recording of the same release differs little.
//
// With -check nothing is written. The new recordings are compared with the committed ones by their
// shape, and the command fails if they differ. Use it to try a new release of Codex.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// maxRun bounds a run of some thirty scenarios, which take less than a second each.
const maxRun = 2 * time.Minute

func main() {
	var opts options
	flag.StringVar(&opts.codex, "codex", "codex", "the codex program to record")
	flag.StringVar(&opts.dir, "dir", filepath.Join("testdata", "transcripts"), "where the recordings are")
	flag.StringVar(&opts.only, "only", "", "record only the scenarios whose name contains this")
	flag.BoolVar(&opts.check, "check", false, "compare with the recordings instead of writing them")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "record: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, cancel := context.WithTimeout(ctx, maxRun)
	err := run(ctx, opts, os.Stdout)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	codex, dir, only string
	check            bool
}

// errDrift is the error if the app-server does not behave as recorded.
var errDrift = errors.New("the recordings do not match")

// run records or checks the scenarios, one app-server for each configuration.
func run(ctx context.Context, opts options, report io.Writer) error {
	// A relative path would be relative to the app-server's directory.
	program, err := exec.LookPath(opts.codex)
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return fmt.Errorf("finding codex: %w", err)
	}
	model, err := scriptedmodel.Listen(scriptedmodel.Options{})
	if err != nil {
		return err
	}
	defer model.Close()
	start := func(of setting) (*appServer, error) { return startCodex(ctx, program, model, of) }
	recordings, err := recordAll(ctx, start, opts.only)
	if err != nil {
		return err
	}
	var drift bool
	for _, r := range recordings {
		path := filepath.Join(opts.dir, r.name+".jsonl")
		if !opts.check {
			err := os.MkdirAll(filepath.Dir(path), 0o755)
			if err = errors.Join(err, os.WriteFile(path, r.text, 0o644)); err != nil {
				return err
			}
			fmt.Fprintf(report, "%s: %d bytes\n", path, len(r.text))
			continue
		}
		committed, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		differences := compare(committed, r.text)
		if len(differences) > 0 {
			drift = true
			fmt.Fprintf(report, "%s:\n  %s\n", r.name, strings.Join(differences, "\n  "))
		}
	}
	if drift {
		return errDrift
	}
	if opts.check {
		fmt.Fprintf(report, "%d recordings match\n", len(recordings))
	}
	return nil
}
