package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
	"github.com/caddy-codex/caddy-codex/internal/test/terminal"
)

// post sends a request to the demo, and returns the status and the answer.
func (d *demo) post(path, body string) (int, gjson.Result) {
	d.t.Helper()
	request, err := http.NewRequestWithContext(e2e.Context(d.t), http.MethodPost, "http://localhost:"+d.port+path, strings.NewReader(body))
	must.OK(d.t, err)
	response, err := http.DefaultClient.Do(request)
	must.OK(d.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must.OK(d.t, err)
	return response.StatusCode, gjson.ParseBytes(text)
}

// chat sends a chat completion with a question and further fields, and returns the first choice's message.
func (d *demo) chat(question, fields string) gjson.Result {
	d.t.Helper()
	quoted, err := json.Marshal(question)
	must.OK(d.t, err)
	status, answer := d.post("/v1/chat/completions", fmt.Sprintf(`{"model":"default",%s"messages":[{"role":"user","content":%s}]}`, fields, quoted))
	if status != http.StatusOK {
		d.t.Errorf("%s: %d %s", question, status, answer.Raw)
	}
	return answer.Get("choices.0.message")
}

// testAnswers: the demo's model writes Markdown and JSON, calls tools and makes pictures, as one of a plan
// with windows that move.
func (d *demo) testAnswers() {
	t := d.t
	if got := d.chat("Show me a table of planets", "").Get("content").Str; !strings.Contains(got, "| Saturn |") {
		t.Errorf("the table: %s", got)
	}
	const tool = `"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}],`
	if got := d.chat("Hello", tool+`"tool_choice":"required",`).Get("tool_calls.0.function").Raw; got != `{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}` {
		t.Errorf("a forced tool: %s", got)
	}
	const format = `"response_format":{"type":"json_schema","json_schema":{"name":"p","strict":true,"schema":{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"],"additionalProperties":false}}},`
	if got := d.chat("The person: Grace Hopper was 85.", format).Get("content").Str; got != `{"age":85,"name":"Grace Hopper"}` {
		t.Errorf("a schema: %s", got)
	}
	for path, code := range map[string]string{"/v1/chat/completions": "error.code", "/v1/messages": "error.type"} {
		status, answer := d.post(path, `{"model":"nope","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`)
		if status != http.StatusNotFound || !strings.Contains(answer.Get(code).Str, "not_found") {
			t.Errorf("an unknown model: %d %s", status, answer.Raw)
		}
	}
	if status, answer := d.post("/v1/images/generations", `{"prompt":"hills"}`); status != http.StatusOK || len(answer.Get("data.0.b64_json").Str) < 1000 {
		t.Errorf("a picture: %d %.300s", status, answer.Raw)
	}
	const used = "app_servers.0.login.meters.0.windows.0.used_percent"
	before := d.status().Get(used)
	e2e.WaitFor(t, "the window to move", func() bool {
		d.chat("Write some Go code", "")
		return d.status().Get(used).Float() > before.Float()
	})
}

func (d *demo) status() gjson.Result {
	d.t.Helper()
	response, err := http.Get("http://localhost:" + d.port + "/codex/status")
	must.OK(d.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must.OK(d.t, err)
	return gjson.ParseBytes(text)
}

var deviceCode = regexp.MustCompile(`[A-Z2-7]{4}-[A-Z2-7]{5}`)

// testDemoSignIn: who presses Enter at the terminal, or wants to log in in a chat, gets a code: the same, as
// long as it can be entered. When it is, the demo uses the user's plan, without a restart.
func testDemoSignIn(t *testing.T, program string) {
	model := scriptedmodel.New(scriptedmodel.Options{})
	t.Cleanup(model.Close)
	plan, err := planbackend.Listen(planbackend.Options{Codex: e2e.CodexBinary, Model: model})
	must.OK(t, err)
	t.Cleanup(plan.Close)
	dir := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(dir, ".codex"), 0o700))
	must.OK(t, os.WriteFile(filepath.Join(dir, ".codex", ".env"), []byte(strings.Join(plan.Env(), "\n")+"\n"), 0o600))
	d := &demo{t: t, port: freePort(t)}
	cmd := exec.Command(program, "-codex", e2e.CodexBinary, "-port", d.port, "-dir", dir)
	cmd.Env = append(os.Environ(), "HOME="+dir, "CODEX_HOME=")
	screen := terminal.Start(t, cmd)
	if said := screen.Wait("Ctrl-C ends it"); !strings.Contains(said, "press Enter, or write") {
		t.Fatal(said)
	}
	screen.Send(terminal.KeyEnter)
	first := deviceCode.FindString(screen.Until("a code", deviceCode.MatchString))
	if got := d.chat("log in", "").Get("content").Str; !strings.Contains(got, "<"+planbackend.DeviceURL+">") || !strings.Contains(got, "`"+first+"`") {
		t.Errorf("the code is %s: %s", first, got)
	}
	if !plan.Expire(first) {
		t.Errorf("%s does not wait for anybody", first)
	}
	screen.Wait("The sign-in has failed")
	got := d.chat("Sign in, please", "").Get("content").Str
	code := deviceCode.FindString(got)
	if !strings.Contains(got, "ended without a login") || code == first {
		t.Errorf("after %s: %s", first, got)
	}
	_, answer := d.post("/v1/messages", `{"model":"default","max_tokens":500,"messages":[{"role":"user","content":"login"}]}`)
	if !strings.Contains(answer.Get("content.0.text").Str, code) {
		t.Errorf("a second chat does not get %s: %s", code, answer.Raw)
	}
	screen.Wait(code)
	if !plan.Authorize(code, plan.AddLogin(planbackend.LoginOptions{})) {
		t.Errorf("%s does not wait for anybody", code)
	}
	said := screen.Wait("your own Codex login answers now")
	http.DefaultClient.CloseIdleConnections() // Caddy closes those of the configuration before at any time
	if got := d.chat("say:Here is the plan's model.", "").Get("content").Str; got != "Here is the plan's model." || plan.Count(planbackend.Issuer) == 0 {
		t.Errorf("%s: %s", got, said)
	}
	screen.Send(terminal.KeyCtrlC)
}
