package clients

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
)

// openCode is a session of opencode, here a server, with the site as providers and its own home.
type openCode struct {
	t       *testing.T
	dir     string // where it works
	url     string // of its server
	session string // URL
}

// openCodePackages are the packages by which it talks to the site, by provider. It contains them.
var openCodePackages = map[string]string{
	"chat": "@ai-sdk/openai-compatible", "messages": "@ai-sdk/anthropic",
	"stranger": "@ai-sdk/openai-compatible", // has a wrong key
}

func newOpenCode(t *testing.T, s *e2e.Site) *openCode {
	t.Helper()
	binary, err := filepath.Abs("node_modules/opencode-linux-x64-baseline/bin/opencode")
	must.OK(t, err)
	if _, err := os.Stat(binary); err != nil {
		needs.Missing(t, "opencode is not installed: run `make deps`")
	}
	providers := make(map[string]any)
	for provider, npm := range openCodePackages {
		key := "sk-unused"
		if provider == "stranger" {
			key = "wrong"
		}
		providers[provider] = map[string]any{
			"npm":     npm,
			"options": map[string]string{"baseURL": s.URL + "/v1", "apiKey": key},
			"models":  map[string]any{"gpt-5": map[string]string{"name": "gpt-5"}},
		}
	}
	config, err := json.Marshal(map[string]any{
		"model": "chat/gpt-5", "share": "disabled", "autoupdate": false,
		"permission": map[string]string{"*": "allow"},
		"provider":   providers,
	})
	must.OK(t, err)
	host, port, err := net.SplitHostPort(e2e.FreeAddr(t))
	must.OK(t, err)
	registry := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(registry.Close)
	o := &openCode{t: t, dir: t.TempDir()}
	cmd := exec.Command(binary, "serve", "--print-logs", "--hostname", host, "--port", port)
	cmd.Dir = o.dir
	cmd.Env = append(sealed(t), "OPENCODE_CONFIG_CONTENT="+string(config),
		"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
		"NPM_CONFIG_REGISTRY="+registry.URL, // where it looks for packages of plugins
	)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = 5 * time.Second
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("opencode:\n%s", output.Bytes())
		}
	})
	o.url = "http://" + net.JoinHostPort(host, port)
	// It leaves the requests unanswered that come while it starts.
	impatient := &http.Client{Timeout: 5 * time.Second}
	e2e.WaitFor(t, "opencode", func() bool {
		response, err := impatient.Get(o.url + "/global/health")
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
	return o
}

func (o *openCode) begin() {
	o.t.Helper()
	var session struct{ ID string }
	// With a title it does not ask the model for one.
	o.call(http.MethodPost, o.url+"/session", `{"title":"a test"}`, &session)
	o.session = o.url + "/session/" + session.ID
}

func (o *openCode) call(method, url, body string, answer any) {
	o.t.Helper()
	request, err := http.NewRequestWithContext(e2e.Context(o.t), method, url, strings.NewReader(body))
	must.OK(o.t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	must.OK(o.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must.OK(o.t, err)
	if err := json.Unmarshal(text, answer); err != nil || response.StatusCode != http.StatusOK {
		o.t.Fatalf("%s: %s, %v\n%s", url, response.Status, err, text)
	}
}

// openCodeMessage is one of its messages, as far as the tests read it.
type openCodeMessage struct {
	Info struct {
		Role, Finish string
		Tokens       struct {
			Total, Input, Output, Reasoning int64
			Cache                           struct{ Read int64 }
		}
		Error struct {
			Name string
			Data struct {
				Message    string
				StatusCode int
			}
		}
	}
	Parts []struct {
		Type, Text, Tool string
		State            struct{ Status string }
	}
}

// ask lets a provider's model work on a prompt until it is done, and returns its last message.
func (o *openCode) ask(provider, prompt string) (text string, last openCodeMessage) {
	o.t.Helper()
	body, err := json.Marshal(map[string]any{
		"model": map[string]string{"providerID": provider, "modelID": "gpt-5"},
		"parts": []any{map[string]string{"type": "text", "text": prompt}},
	})
	must.OK(o.t, err)
	o.call(http.MethodPost, o.session+"/message", string(body), &last)
	for _, part := range last.Parts {
		if part.Type == "text" {
			text += part.Text
		}
	}
	return text, last
}

// did returns what the agent did in the session: its texts and calls.
func (o *openCode) did() (did []string) {
	o.t.Helper()
	var messages []openCodeMessage
	o.call(http.MethodGet, o.session+"/message", "", &messages)
	for _, message := range messages {
		for _, part := range message.Parts {
			switch {
			case message.Info.Role != "assistant":
			case part.Type == "text":
				did = append(did, part.Text)
			case part.Type == "tool":
				did = append(did, part.Tool+" "+part.State.Status)
			}
		}
	}
	return did
}

// TestOpenCode runs sessions of opencode, which always streams, with its own tools on one server.
func TestOpenCode(t *testing.T) {
	s := e2e.NewSite(t, "api_key sk-unused")
	o := newOpenCode(t, s)
	testOpenCodeChat(t, s, o)
	testOpenCodeMessages(t, s, o)
}

// testOpenCodeChat runs turns over chat completions.
func testOpenCodeChat(t *testing.T, s *e2e.Site, o *openCode) {
	o.begin()
	for name, text := range map[string]string{"a.txt": "apple", "b.txt": "pear"} {
		must.OK(t, os.WriteFile(filepath.Join(o.dir, name), []byte(text+"\n"), 0o600))
	}
	got, last := o.ask("chat", "chunk=3; verbatim:"+multibyte)
	if got != multibyte {
		t.Errorf("opencode got %q", got)
	}
	if tokens := last.Info.Tokens; last.Info.Finish != "stop" || tokens.Total != 168 || tokens.Cache.Read != 23 || tokens.Reasoning != 5 {
		t.Errorf("opencode got %+v", last.Info)
	}

	read := func(name string) string { return `read {"filePath":"` + filepath.Join(o.dir, name) + `"}` }
	o.ask("chat", "reason:Hm.; say:I look.; tool:"+read("a.txt")+"; tool:"+read("b.txt")+`
then
tool:bash {"command":"cat a.txt b.txt > c.txt","description":"join"}
then
tool:client_apply_patch {"patchText":"*** Begin Patch\n*** Add File: made.txt\n+by the patch\n*** End Patch"}
then
say:All done.`)
	if did, want := o.did(), []string{multibyte, "I look.", "read completed", "read completed", "bash completed", "apply_patch completed", "All done."}; !slices.Equal(did, want) {
		t.Errorf("opencode did %q, want %q", did, want)
	}
	for name, want := range map[string]string{"c.txt": "apple\npear\n", "made.txt": "by the patch\n"} {
		if made, err := os.ReadFile(filepath.Join(o.dir, name)); err != nil || string(made) != want {
			t.Errorf("opencode made %s: %q, %v", name, made, err)
		}
	}
	request, _ := s.Model.Last()
	if given := strings.Join(e2e.Describe(request), "\n"); !strings.Contains(given, "1: apple") || !strings.Contains(given, "1: pear") {
		t.Errorf("the model was given\n%s", given)
	}

	if got, _ := o.ask("chat", "say:Bye."); got != "Bye." {
		t.Errorf("opencode got %q", got)
	}
	s.OneThread(6)
	_, last = o.ask("stranger", "say:Hello.")
	if err := last.Info.Error; err.Name != "APIError" || err.Data.StatusCode != http.StatusUnauthorized {
		t.Errorf("opencode got %+v", err)
	}

	began := time.Now()
	_, last = o.ask("chat", "http:400")
	if time.Since(began) > 2*time.Second {
		return // the error came within the stream
	}
	if err := last.Info.Error; err.Name != "APIError" || err.Data.StatusCode != 400 || err.Data.Message != "scripted 400" {
		t.Errorf("opencode got %+v", err)
	}
}

// testOpenCodeMessages runs a conversation over Anthropic's API, with calls side by side.
func testOpenCodeMessages(t *testing.T, s *e2e.Site, o *openCode) {
	o.begin()
	before := len(s.Prompts())
	must.OK(t, os.WriteFile(filepath.Join(o.dir, "a.txt"), []byte("apple\n"), 0o600))
	o.ask("messages", `say:I look.; tool:read {"filePath":"`+filepath.Join(o.dir, "a.txt")+`"}; tool:bash {"command":"echo pear","description":"say"}
then
verbatim:`+multibyte)
	if did, want := o.did(), []string{"I look.", "read completed", "bash completed", multibyte}; !slices.Equal(did, want) {
		t.Errorf("opencode did %q, want %q", did, want)
	}
	request, _ := s.Model.Last()
	if given := strings.Join(e2e.Describe(request), "\n"); !strings.Contains(given, "1: apple") || !strings.Contains(given, "pear") {
		t.Errorf("the model was given\n%s", given)
	}
	if asked := s.Prompts()[before:]; len(asked) != 2 || asked[0].Key != asked[1].Key {
		t.Errorf("the model was asked %d times, or in several threads", len(asked))
	}
}
