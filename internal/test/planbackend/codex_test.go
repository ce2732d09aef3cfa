package planbackend_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/needs"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// deadline bounds each wait for codex.
const deadline = 30 * time.Second

// codexBinary returns the path of the real codex.
func codexBinary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("CODEX_BIN")
	if path == "" {
		path = "../../../.cache/codex/node_modules/.bin/codex"
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = exec.LookPath(path)
	}
	if err != nil {
		needs.Missing(t, "this test needs the real codex: run `make deps`, or set CODEX_BIN")
	}
	return path
}

// world is a back end with a scripted model and one login.
type world struct {
	*planbackend.Backend
	t     *testing.T
	model *scriptedmodel.Server
	login *planbackend.Login
	home  string
}

func newWorld(t *testing.T, opts planbackend.Options, login planbackend.LoginOptions) *world {
	t.Helper()
	w := &world{t: t, model: scriptedmodel.New(scriptedmodel.Options{}), home: t.TempDir()}
	opts.Model, opts.Codex = w.model, codexBinary(t)
	var err error
	if w.Backend, err = planbackend.Listen(opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	t.Cleanup(w.model.Close)
	w.login = w.AddLogin(login)
	if err := w.login.Write(w.home); err != nil {
		t.Fatal(err)
	}
	return w
}

// codex is a running app-server.
type codex struct {
	t     *testing.T
	in    io.Writer
	lines chan string
	calls int
}

// start starts the app-server, and ends it with the test.
func (w *world) start() *codex {
	w.t.Helper()
	cmd := exec.Command(codexBinary(w.t), "app-server")
	cmd.Dir = w.t.TempDir()
	cmd.Env = append(os.Environ(), "CODEX_HOME="+w.home)
	cmd.WaitDelay = deadline
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if errIn != nil || errOut != nil {
		w.t.Fatal(errIn, errOut)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	c := &codex{t: w.t, in: in, lines: make(chan string, 4096)}
	go func() {
		defer close(c.lines)
		for reader := bufio.NewReader(out); ; {
			line, err := reader.ReadString('\n')
			if err != nil {
				return
			}
			c.lines <- line
		}
	}()
	w.t.Cleanup(func() {
		_ = in.Close()
		kill := time.AfterFunc(deadline, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		for range c.lines {
		}
		if err := cmd.Wait(); err != nil {
			w.t.Error("codex:", err)
		}
	})
	c.call("initialize", `{"clientInfo":{"name":"test","version":"0"},"capabilities":{"experimentalApi":true}}`)
	c.send(`{"method":"initialized"}`)
	return c
}

func (c *codex) send(message string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, message+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// until returns the first message that satisfies a condition.
func (c *codex) until(what string, is func(gjson.Result) bool) gjson.Result {
	c.t.Helper()
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-c.lines:
			if message := gjson.Parse(line); ok && !is(message) {
				continue
			} else if ok {
				return message
			}
			c.t.Fatal("codex has ended before", what)
		case <-timer.C:
			c.t.Fatal("codex does not send", what)
		}
	}
}

// call calls a method and returns the message with its answer.
func (c *codex) call(method, params string) gjson.Result {
	c.t.Helper()
	c.calls++
	id := int64(c.calls)
	request, err := json.Marshal(map[string]any{"id": id, "method": method, "params": json.RawMessage(params)})
	if err != nil {
		c.t.Fatal(err)
	}
	c.send(string(request))
	return c.until("the answer to "+method, func(m gjson.Result) bool { return m.Get("id").Int() == id && !m.Get("method").Exists() })
}

// ask starts a thread and a turn, and returns the answer's text.
func (c *codex) ask(model, prompt string) string {
	c.t.Helper()
	started := c.call("thread/start", `{"model":"`+model+`","ephemeral":true}`)
	thread := started.Get("result.thread.id").Str
	if thread == "" {
		c.t.Fatal("no thread:", started)
	}
	c.call("turn/start", `{"threadId":"`+thread+`","input":[{"type":"text","text":"`+prompt+`"}]}`)
	var text strings.Builder
	c.until("the end of the turn", func(m gjson.Result) bool {
		if m.Get("method").Str == "item/agentMessage/delta" {
			text.WriteString(m.Get("params.delta").Str)
		}
		return m.Get("method").Str == "turn/completed"
	})
	return text.String()
}

// TestCodex drives the real codex: its login, its models, a turn over each transport, and
// what is used of the plan.
func TestCodex(t *testing.T) {
	for transport, opts := range map[scriptedmodel.Transport]planbackend.Options{scriptedmodel.WebSocket: {}, scriptedmodel.HTTP: {HTTP: true}} {
		t.Run(string(transport), func(t *testing.T) {
			w := newWorld(t, opts, planbackend.LoginOptions{Plan: "team"})
			if err := w.AddModel("gpt-new", "gpt-5.5", map[string]any{"use_responses_lite": true}); err != nil {
				t.Fatal(err)
			}
			c := w.start()
			account := c.call("account/read", `{}`).Get("result.account")
			if account.Get("type").Str != "chatgpt" || account.Get("planType").Str != "team" || account.Get("email").Str != w.login.Email {
				t.Errorf("the account is %s", account)
			}
			if models := c.call("model/list", `{"includeHidden":true}`); models.Get(`result.data.#(model=="gpt-new").model`).Str != "gpt-new" {
				t.Errorf("the models are %s", models.Get("result.data.#.model"))
			}
			if got := c.ask("gpt-new", "say:Hello"); got != "Hello" {
				t.Errorf("the answer is %q", got)
			}
			request, _ := w.model.Last()
			if request.Transport != transport || request.Model != "gpt-new" || request.ParallelToolCalls == nil || *request.ParallelToolCalls ||
				request.Header.Get("Authorization") != "Bearer "+w.login.Tokens().Access || request.Header.Get("Chatgpt-Account-Id") != w.login.Account {
				t.Errorf("the model is asked by %s for %s: %s, %v", request.Transport, request.Model, request.Body, request.Header)
			}
			if calls := w.Calls(planbackend.Responses); transport == scriptedmodel.HTTP && (len(calls) != 1 || calls[0].Header.Get("Content-Encoding") != "zstd") {
				t.Errorf("the calls are %+v", calls)
			}
			limits := c.call("account/rateLimits/read", `{}`).Get("result.rateLimits")
			if limits.Get("primary.usedPercent").Int() != 5 || limits.Get("planType").Str != "team" {
				t.Errorf("the limits are %s", limits)
			}
			for _, kind := range []planbackend.Kind{planbackend.Accounts, planbackend.Models, planbackend.Settings, planbackend.Usage, planbackend.Credits, planbackend.Socket} {
				if w.Count(kind, w.login) == 0 {
					t.Error("there was no call of", kind)
				}
			}
			if w.Count(planbackend.Issuer) != 0 {
				t.Error("tokens were renewed")
			}
		})
	}
}

// TestRenewal checks that codex renews tokens that have ended or are refused, once, keeps
// them, and that a refresh token is spent.
func TestRenewal(t *testing.T) {
	for name, end := range map[string]func(*world) error{
		"ended":   func(w *world) error { return w.login.Expire(w.home) },
		"refused": func(w *world) error { w.login.Refuse(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, planbackend.Options{}, planbackend.LoginOptions{})
			if err := end(w); err != nil {
				t.Fatal(err)
			}
			before := w.login.Tokens()
			c := w.start()
			if got := c.ask("gpt-5.5", "say:Hello"); got != "Hello" {
				t.Errorf("the answer is %q", got)
			}
			file, err := os.ReadFile(filepath.Join(w.home, "auth.json"))
			if now := w.login.Tokens(); err != nil || now == before || gjson.GetBytes(file, "tokens.refresh_token").Str != now.Refresh || w.Count(planbackend.Issuer) != 1 {
				t.Errorf("after %d renewals: %s, %v", w.Count(planbackend.Issuer), file, err)
			}
		})
	}
}
