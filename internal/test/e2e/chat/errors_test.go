package chat

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// TestUpstreamErrors checks every failure of the model with the official client, streamed and not.
func TestUpstreamErrors(t *testing.T) { e2e.OverBoth(t, testUpstreamErrors) }

func testUpstreamErrors(t *testing.T) {
	s := e2e.NewSite(t, "")
	for _, c := range []struct {
		prompt  string
		status  int
		code    string
		message string // part of Codex's message
		retry   string // x-should-retry
		after   bool   // there is a Retry-After
	}{
		{"http:400", 400, "", "", "", false},
		{"http:401", 503, "codex_unauthorized", "run `caddy codex login`", "false", false},
		{"http:403", 403, "codex_forbidden", "403", "false", false},
		{"http:404", 404, "model_not_found", "404", "", false},
		{"http:429", 429, "rate_limit_exceeded", "", "", true},
		{"http:500", 500, "", "", "", false},
		{"http:503", 503, "", "503", "", true},
		{"fail:rate_limit_exceeded Rate limit reached. Please try again in 11ms.", 429, "rate_limit_exceeded", "Rate limit reached", "", true},
		{"fail:insufficient_quota", 429, "insufficient_quota", "", "false", false},
		{"limit:3600", 429, "insufficient_quota", "try again at ", "false", false},
		{"fail:context_length_exceeded", 400, "context_length_exceeded", "room", "", false},
	} {
		t.Run(c.prompt, func(t *testing.T) {
			bothWays(t, s.At(t), func(t *testing.T, ask func(openai.ChatCompletionNewParams) (e2e.Answer, error)) {
				begin := time.Now()
				_, err := ask(e2e.UserSays(c.prompt))
				var apiErr *openai.Error
				if !errors.As(err, &apiErr) {
					if err != nil && time.Since(begin) > 2*time.Second && strings.Contains(err.Error(), "while streaming") && strings.Contains(err.Error(), c.code) && strings.Contains(err.Error(), c.message) {
						return // on a busy machine it came within the stream
					}
					t.Fatalf("got %v", err)
				}
				if apiErr.StatusCode != c.status || (c.code != "" && apiErr.Code != c.code) || !strings.Contains(apiErr.Message, c.message) || apiErr.Message == "" {
					t.Errorf("status %d, type %s, code %s, message %q", apiErr.StatusCode, apiErr.Type, apiErr.Code, apiErr.Message)
				}
				header := apiErr.Response.Header
				if header.Get("X-Should-Retry") != c.retry || (header.Get("Retry-After") != "") != c.after {
					t.Errorf("x-should-retry %q, retry-after %q", header.Get("X-Should-Retry"), header.Get("Retry-After"))
				}
				if header.Get("X-Request-Id") == "" {
					t.Error("no request id")
				}
			})
		})
	}
}

// TestCutAfterCall checks that an answer ends soon, with its call, when the model's response
// breaks off after it. Codex does not say so before the call is answered.
func TestCutAfterCall(t *testing.T) { e2e.OverBoth(t, testCutAfterCall) }

func testCutAfterCall(t *testing.T) {
	s := e2e.NewSite(t, "")
	tools := []any{e2e.Fields{"type": "function", "function": e2e.Fields{"name": "find"}}}
	for end, stream := range map[string]bool{
		"incomplete:max_output_tokens": true, "say:Hm; incomplete:content_filter": false,
		"say:Half of it; cutoff": true, "fail:context_length_exceeded too long": false,
	} {
		t.Run(end, func(t *testing.T) {
			t.Parallel() // two wait some seconds
			_, body := s.At(t).Post(e2e.ChatBody("tool:1 find {}; "+end, e2e.Fields{"tools": tools, "stream": stream}), nil)
			if !strings.Contains(body, `"finish_reason":"tool_calls"`) {
				t.Error(body)
			}
		})
	}
}

// TestDeepBodies checks that Codex answers the deepest body that is taken, in each API, and that a
// deeper one is refused at once. Codex itself gives no answer to a message that is too deep.
func TestDeepBodies(t *testing.T) {
	s := e2e.NewSite(t, "")
	const most = 126
	for path, c := range map[string]struct {
		before string // the body before the schema of a tool
		levels int    // of the body above the schema
		after  string
	}{
		"/v1/chat/completions": {`{"model":"gpt-5","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":`, 4, `}}]}`},
		"/v1/responses":        {`{"model":"gpt-5","input":"hi","tools":[{"type":"function","name":"f","parameters":`, 3, `}]}`},
		"/v1/messages":         {`{"model":"gpt-5","max_tokens":99,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":`, 3, `}]}`},
	} {
		for total, want := range map[int]int{most: http.StatusOK, most + 1: http.StatusBadRequest} {
			properties := total - c.levels - 1
			body := c.before + strings.Repeat(`{"a":`, properties) + `{}` + strings.Repeat(`}`, properties) + c.after
			response := s.Do(http.MethodPost, path, strings.NewReader(body), nil)
			response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("%s with %d levels: %s", path, total, response.Status)
			}
		}
	}
}

// TestResponseBreaksOffAfterCall checks that a client gets its call and a proper end, also if the
// connection to the provider breaks while the model writes the next call.
func TestResponseBreaksOffAfterCall(t *testing.T) {
	const prompt = `tool:1 search {\"q\":\"whole\"}; tool:1 search {\"q\":\"in pieces\"}; cutoff`
	const schema = `{"type":"object","properties":{"q":{"type":"string"}}}`
	const function = `"name":"search","description":"d",`
	s := e2e.NewSite(t, "")
	for path, api := range map[string]struct{ body, end string }{
		"/v1/chat/completions": {`"messages":[{"role":"user","content":"PROMPT"}],"tools":[{"type":"function","function":{` + function + `"parameters":` + schema + `}}]`,
			`"finish_reason":"tool_calls"`},
		"/v1/responses": {`"store":false,"input":"PROMPT","tools":[{"type":"function",` + function + `"parameters":` + schema + `}]`,
			`"status":"completed"`},
		"/v1/messages": {`"max_tokens":1000,"messages":[{"role":"user","content":"PROMPT"}],"tools":[{` + function + `"input_schema":` + schema + `}]`,
			`"stop_reason":"tool_use"`},
	} {
		for _, stream := range []string{"true", "false"} {
			t.Run(path+" "+stream, func(t *testing.T) {
				t.Parallel()
				s := s.At(t)
				begin := time.Now()
				body := `{"model":"gpt-5","stream":` + stream + "," + strings.Replace(api.body, "PROMPT", prompt, 1) + "}"
				answer, text := s.Call(http.MethodPost, path, body, nil)
				took := time.Since(begin)
				if answer.StatusCode != http.StatusOK || !strings.Contains(text, "whole") || !strings.Contains(text, api.end) || strings.Contains(text, `"error":{`) {
					t.Errorf("%s after %s: %s", answer.Status, took, text)
				}
				if took > 25*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		}
	}
}

// private matches what clients must not learn of the provider and this machine.
var private = regexp.MustCompile(`https?://|127\.0\.0\.1|localhost:\d|/tmp/|/dev/shm/|/home/`)

// TestProviderUntold: no failure shows the provider's URL to clients, and the log has it.
func TestProviderUntold(t *testing.T) {
	s := e2e.NewSite(t, "")
	log := filepath.Join(t.TempDir(), "caddy.log")
	logged := func(caddyfile string) string {
		return strings.Replace(caddyfile, "admin off", "admin off\nlog {\noutput file "+log+"\n}", 1)
	}
	s.Load(logged(s.Caddyfile("")))
	s.WaitReady()
	for _, prompt := range []string{
		"http:400", "http:401", "http:403", "http:404", "http:429", "http:500", "http:503", "cutoff", "say:Half of it; cutoff",
		"fail:server_error see http://127.0.0.1:9/x", "fail:unheard_of at https://provider.example/y",
	} {
		checkUntold(t, s, prompt)
	}
	provider := s.Provider
	if s.Plan != nil {
		provider = "https://chatgpt.com/"
	}
	if text := e2e.ReadFile(t, log); strings.Count(text, "url: "+provider) < 4 {
		t.Errorf("the log does not tell the provider's URL for each of both APIs, streamed and not: %s", text)
	}

	// The address has no listener, so Codex waits. A new process reads the changed configuration.
	if s.Plan == nil {
		e2e.WriteHome(t, s.Home, "http://"+e2e.FreeAddr(t)+"/v1", codexhome.Options{})
	} else {
		s.Plan.Fail(planbackend.All, planbackend.Down())
	}
	s.Load(s.Caddyfile(strings.Replace(s.AppServer(), "{\n", "{\nenv OTHER yes\n", 1) + "\nidle_timeout 3s"))
	e2e.WaitFor(t, "the app-server", func() bool { // its login fails
		_, body := s.Readiness()
		return body.AppServer == "ready"
	})
	checkUntold(t, s, "hello")
}

// checkUntold sends each kind of request side by side, and checks that the answers are not private.
func checkUntold(t *testing.T, s *e2e.Site, prompt string) {
	t.Run(prompt, func(t *testing.T) {
		for _, stream := range []bool{false, true} {
			for path, body := range map[string]e2e.Fields{
				"/v1/chat/completions": {"model": "gpt-5", "stream": stream, "messages": []any{e2e.Fields{"role": "user", "content": prompt}}},
				"/v1/responses":        {"model": "gpt-5", "stream": stream, "input": prompt},
			} {
				t.Run(fmt.Sprintf("%s, stream %t", path, stream), func(t *testing.T) {
					t.Parallel()
					s := s.At(t)
					response, text := s.Call(http.MethodPost, path, body, nil)
					if !strings.Contains(text, `"error":{`) && !strings.Contains(text, `"code":"`) {
						t.Errorf("it did not fail: %s %s", response.Status, text)
					}
					if found := private.FindString(text); found != "" {
						t.Errorf("it tells %q: %s", found, text)
					}
				})
			}
		}
	})
}

// TestMachineUntold checks that clients get only a general reason why an app-server is
// not ready. The program's own words and paths are for the operator.
func TestMachineUntold(t *testing.T) {
	s := e2e.NewSite(t, "")
	broken := filepath.Join(t.TempDir(), "broken")
	must.OK(t, os.WriteFile(broken, []byte("#!/bin/sh\necho 'token s3cret in /home/me' >&2\nexit 3\n"), 0o700))
	foreign := filepath.Join(t.TempDir(), "foreign")
	must.OK(t, os.WriteFile(foreign, []byte("no program of this machine"), 0o700))
	admin := s.WithAdmin(s.Caddyfile(""))
	for command, says := range map[string]struct{ everybody, operator string }{
		foreign + " app-server":              {"cannot be started", foreign},
		"no-such-codex-on-a-path app-server": {"not installed", "no-such-codex-on-a-path"},
		broken + " app-server":               {"the command ends at once", "token s3cret in /home/me"},
	} {
		s.Load(strings.Replace(s.Caddyfile("app_server "+command), "admin off", "admin "+admin.Addr, 1))
		public := ""
		e2e.WaitFor(t, "what to do in /readyz", func() bool {
			status, text := s.Get("/readyz")
			public = text
			return status == http.StatusServiceUnavailable && strings.Contains(text, says.everybody)
		})
		for range 3 { // during a start or between two
			response, text := s.Post(e2e.ChatBody("say:ok", nil), nil)
			if response.StatusCode != http.StatusServiceUnavailable {
				t.Error(command, response.Status, text)
			}
			public += text
		}
		if found := private.FindString(public); found != "" || strings.Contains(public, "s3cret") {
			t.Errorf("%s: everybody reads %q in %s", command, found, public)
		}
		e2e.WaitFor(t, "the reason on the admin API", func() bool {
			return strings.Contains(fmt.Sprint(admin.Status()), says.operator)
		})
	}
	s.Load(s.Caddyfile(""))
	s.WaitReady()
}
