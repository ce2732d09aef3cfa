package appserver

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// TestProgramOfTheCaller checks an app-server that runs within this process.
func TestProgramOfTheCaller(t *testing.T) {
	var started int
	p := New(Config{StopTimeout: time.Second, Start: func() (*Program, error) {
		started++
		return withinProcess(), nil
	}}, nil)
	p.Start()
	t.Cleanup(p.Stop)
	if c := conn(t, p); c.Err() != nil {
		t.Error(c.Err())
	}
	if status := p.Status(); status.PID != 7 || status.Version != "0.169.0" {
		t.Errorf("%+v", status)
	}
	p.Stop()
	if state := p.Status().State; state != StateStopped || started != 1 {
		t.Errorf("it is %s after %d starts", state, started)
	}
}

// TestProgramRefused checks that the error of Config.Start becomes the reason.
func TestProgramRefused(t *testing.T) {
	p := New(Config{Start: func() (*Program, error) { return nil, io.ErrNoProgress }}, nil)
	p.Start()
	t.Cleanup(p.Stop)
	if status := awaitState(t, p, StateBackoff); !strings.Contains(status.Reason, io.ErrNoProgress.Error()) {
		t.Errorf("%+v", status)
	}
}

// withinProcess is an app-server that answers what a start needs and ends with its
// input.
func withinProcess() *Program {
	stdin, toProgram := io.Pipe()
	fromProgram, stdout := io.Pipe()
	stderr, errors := io.Pipe()
	return &Program{
		Stdin: toProgram, Stdout: fromProgram, Stderr: stderr, PID: 7,
		Wait: func() string {
			in := bufio.NewScanner(stdin)
			for in.Scan() {
				call := gjson.ParseBytes(in.Bytes())
				if result := childResult(nil, call.Get("method").Str); result != "" {
					_, _ = fmt.Fprintf(stdout, `{"id":%s,"result":%s}`+"\n", call.Get("id").Raw, result)
				}
			}
			_ = stdout.Close()
			_ = errors.Close()
			return "ended"
		},
		Terminate: func() { _ = stdin.Close() },
		Kill:      func() { _ = stdin.Close() },
	}
}
