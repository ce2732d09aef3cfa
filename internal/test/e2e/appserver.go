package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// AppServer is a codex app-server beside that of a site, for what Codex itself says of a login.
type AppServer struct {
	t     testing.TB
	stdin io.Writer
	lines *bufio.Scanner
	asked int
	told  map[string]gjson.Result // the last notification of each method
}

// maxLine bounds a message of an app-server, in bytes.
const maxLine = 4 << 20

// StartAppServer starts an app-server with this login and a CODEX_HOME of its own, until the end of the test.
func StartAppServer(t testing.TB, login *planbackend.Login) *AppServer {
	t.Helper()
	home := t.TempDir()
	WriteFile(t, filepath.Join(home, "config.toml"), "[features]\nplugins = false\napps = false\n[analytics]\nenabled = false\n")
	must.OK(t, login.Write(home))
	cmd := exec.CommandContext(Context(t), CodexBinary, "app-server")
	cmd.Dir, cmd.Env, cmd.WaitDelay = t.TempDir(), append(os.Environ(), "CODEX_HOME="+home), Deadline
	stdin, err := cmd.StdinPipe()
	must.OK(t, err)
	stdout, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close() // ends it
		_ = cmd.Wait()    // what it says then does not matter
	})
	a := &AppServer{t: t, stdin: stdin, lines: bufio.NewScanner(stdout), told: make(map[string]gjson.Result)}
	a.lines.Buffer(nil, maxLine)
	a.Call("initialize", Fields{
		"clientInfo": Fields{"name": "test", "title": "test", "version": "1"}, "capabilities": Fields{"experimentalApi": true},
	})
	a.send(Fields{"method": "initialized"})
	return a
}

func (a *AppServer) send(message Fields) {
	a.t.Helper()
	_, err := fmt.Fprintln(a.stdin, EncodeJSON(message))
	must.OK(a.t, err)
}

// Call calls a method, and returns its result.
func (a *AppServer) Call(method string, params any) gjson.Result {
	a.t.Helper()
	a.asked++
	a.send(Fields{"id": a.asked, "method": method, "params": params})
	answer := a.await(method, func(m gjson.Result) bool { return m.Get("id").Int() == int64(a.asked) && !m.Get("method").Exists() })
	if e := answer.Get("error"); e.Exists() {
		a.t.Fatalf("%s: %s", method, e.Raw)
	}
	return answer.Get("result")
}

// Told returns the last notification of a method before what was waited for last.
func (a *AppServer) Told(method string) gjson.Result { return a.told[method] }

// Await waits for a notification.
func (a *AppServer) Await(method string) gjson.Result {
	a.t.Helper()
	return a.await(method, func(m gjson.Result) bool { return m.Get("method").Str == method })
}

func (a *AppServer) await(what string, is func(gjson.Result) bool) gjson.Result {
	a.t.Helper()
	for a.lines.Scan() {
		message := gjson.Parse(a.lines.Text())
		if !message.Get("id").Exists() {
			a.told[message.Get("method").Str] = message
		}
		if is(message) {
			return message
		}
	}
	a.t.Fatalf("the app-server ended before %s: %v", what, a.lines.Err())
	panic("unreachable")
}

// RateLimits returns what Codex says of the meters of its login.
func (a *AppServer) RateLimits() gjson.Result {
	a.t.Helper()
	return a.Call("account/rateLimits/read", Fields{"supportsLunaReserve": true, "excludeResetCreditDetails": true})
}

// Turn runs a turn with a model in a new thread, and returns what it says of its end.
func (a *AppServer) Turn(model, prompt string) gjson.Result {
	a.t.Helper()
	thread := a.Call("thread/start", Fields{"model": model, "ephemeral": true}).Get("thread.id").Str
	a.Call("turn/start", Fields{"threadId": thread, "input": []Fields{{"type": "text", "text": prompt}}})
	return a.Await("turn/completed").Get("params.turn")
}
