package gateway

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
)

// newStubUpstream is an app-server that takes every call, reads no more of it than
// its method, and runs no turn.
func newStubUpstream(t testing.TB) *fakeUpstream { return newServedUpstream(t, answerAll) }

// newServedUpstream is an app-server within this process: serve answers calls until
// there are no more.
func newServedUpstream(t testing.TB, serve func(in io.Reader, out io.Writer)) *fakeUpstream {
	t.Helper()
	u := &fakeUpstream{process: appserver.New(appserver.Config{
		Start:  func() (*appserver.Program, error) { return startServing(serve), nil },
		Client: codexrpc.ClientInfo{Name: "test"},
	}, nil)}
	u.process.Start()
	t.Cleanup(u.process.Stop)
	if _, err := u.process.Instance(t.Context()); err != nil {
		t.Fatal(err)
	}
	return u
}

func startServing(serve func(in io.Reader, out io.Writer)) *appserver.Program {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	stderr, silent := io.Pipe()
	exited := make(chan string, 1)
	go func() {
		serve(in, out)
		for _, end := range []io.Closer{in, out, silent} {
			_ = end.Close()
		}
		exited <- "exited"
	}()
	kill := func() { _ = in.Close() }
	return &appserver.Program{
		Stdin: stdin, Stdout: stdout, Stderr: stderr, PID: 1,
		Wait: func() string { return <-exited }, Terminate: kill, Kill: kill,
	}
}

var callHead = regexp.MustCompile(`^\{"id":(\d+),"method":"([^"]+)"`)

func answerAll(in io.Reader, out io.Writer) {
	lines := bufio.NewReaderSize(in, 64<<10)
	for n := 0; ; n++ {
		head, more, err := lines.ReadLine()
		if err != nil {
			return
		}
		call := callHead.FindSubmatch(head)
		answer := ""
		if call != nil {
			result := `{}`
			switch string(call[2]) {
			case "initialize":
				result = `{"userAgent":"codex/0.169.0"}`
			case "thread/start":
				result = fmt.Sprintf(`{"thread":{"id":"thread-%d"}}`, n)
			case "turn/start":
				result = fmt.Sprintf(`{"turn":{"id":"turn-%d"}}`, n)
			}
			answer = fmt.Sprintf(`{"id":%s,"result":%s}`+"\n", call[1], result)
		}
		for more && err == nil {
			_, more, err = lines.ReadLine()
		}
		if answer != "" {
			if _, err := io.WriteString(out, answer); err != nil {
				return
			}
		}
	}
}
