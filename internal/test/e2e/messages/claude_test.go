package messages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/messagecheck"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

type claude struct {
	*e2e.Claude
	t     *testing.T
	judge *judge
}

// newClaude returns a Claude Code that talks to a site, and to nobody else.
func newClaude(t *testing.T, s *e2e.Site, env ...string) *claude {
	t.Helper()
	j := newJudge(t, s)
	return &claude{e2e.NewClaude(t, j.url, env...), t, j}
}

// result is what Claude Code prints in the end.
type result struct {
	Subtype   string `json:"subtype"`
	IsError   bool   `json:"is_error"`
	Result    string `json:"result"`
	SessionID string `json:"session_id"`
	Turns     int    `json:"num_turns"`
}

// run asks Claude Code, which may use its tools without asking back.
func (c *claude) run(prompt string, args ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*e2e.Deadline)
	defer cancel()
	args = append([]string{"-p", prompt, "--output-format", "json", "--allowedTools", "Bash,Write,Edit,Read,Glob,Grep,Agent,Task,WebSearch,ToolSearch,Skill"}, args...)
	cmd := c.Command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	var r result
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		c.t.Fatalf("Claude Code prints %s\n%s", &stdout, &stderr)
	}
	return r
}

// session runs the Agent SDK, which runs Claude Code, and returns each prompt's last line.
func (c *claude) session(prompts []string) []string {
	c.t.Helper()
	script, err := filepath.Abs("../clients/agent-session.js")
	must.OK(c.t, err)
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*e2e.Deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", script, c.Path, c.judge.url, e2e.EncodeJSON(prompts))
	cmd.Dir, cmd.Env = c.Dir, c.Env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("%v: %s%s", err, out, &stderr)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// judge stands between Claude Code and a site, and reads all answers strictly.
type judge struct {
	t        *testing.T
	url      string
	mu       sync.Mutex
	requests []judged
}

type judged struct {
	body    []byte
	status  int
	message *messagecheck.Message // nil: it has failed
}

func newJudge(t *testing.T, s *e2e.Site) *judge {
	to, err := url.Parse(s.URL)
	must.OK(t, err)
	j := &judge{t: t}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/messages" {
			proxy.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		tee := &tee{ResponseWriter: w, status: http.StatusOK}
		proxy.ServeHTTP(tee, r)
		if r.Context().Err() == nil {
			j.read(body, tee)
		}
	}))
	t.Cleanup(server.Close)
	j.url = server.URL
	return j
}

// tee keeps a copy of an answer.
type tee struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (t *tee) WriteHeader(status int) {
	t.status = status
	t.ResponseWriter.WriteHeader(status)
}

func (t *tee) Write(p []byte) (int, error) {
	t.body.Write(p)
	return t.ResponseWriter.Write(p)
}

// Unwrap lets the proxy flush.
func (t *tee) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// read judges an answer.
func (j *judge) read(body []byte, answer *tee) {
	one := judged{body: body, status: answer.status}
	text := answer.body.String()
	switch {
	case answer.status != http.StatusOK:
	case strings.HasPrefix(text, "{"):
		m, err := messagecheck.Whole([]byte(text))
		if err != nil {
			j.t.Errorf("%v: %s", err, text)
		}
		one.message = m
	default:
		r, err := messagecheck.Stream(text)
		if err != nil {
			j.t.Errorf("%v: %s", err, text)
		}
		if r.Failure == nil {
			one.message = r.Message
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests = append(j.requests, one)
}

// all returns the requests so far.
func (j *judge) all() []judged {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]judged(nil), j.requests...)
}
