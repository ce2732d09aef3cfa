package operations

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// example says how to run a Caddyfile of the examples on this machine.
type example struct {
	// replace holds pairs of a text in the file and its replacement. Each text must occur.
	replace []string
	env     map[string]string
	// header is the header that a client must send.
	header http.Header
	// check checks what the example shows, once the site is ready.
	check func(t *testing.T, s *e2e.Site)
}

// TestExamples runs every Caddyfile in examples/ with other addresses.
func TestExamples(t *testing.T) {
	auth := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, ok := strings.CutSuffix(r.Header.Get("X-Session"), "'s")
		if !ok {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Remote-User", user)
	}))
	defer auth.Close()
	turns := filepath.Join(t.TempDir(), "turns.log")
	scrape := e2e.FreeAddr(t)
	keys := e2e.NewKeyFile(t, map[string]string{
		"alice's": "requests 60 1m\ntokens 500000 5h\ntokens 20000000 month", "old": "expires 2020-01-31", "three": "requests 3 day",
	})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path, r.Header["Authorization"], r.Header["X-Api-Key"], r.Header["Api-Key"])
	}))
	defer provider.Close()
	examples := map[string]example{
		"api-keys": {
			replace: []string{"api.example.com", "SITE"},
			env:     map[string]string{"ALICE_KEY": "alice's", "BOB_KEY": "bob's"},
			header:  e2e.Bearer("bob's"),
			check: func(t *testing.T, s *e2e.Site) {
				if response, body := s.Post(e2e.ChatBody("say:no", nil), e2e.Bearer("eve's")); response.StatusCode != http.StatusUnauthorized {
					t.Errorf("another key: %d %s", response.StatusCode, body)
				}
			},
		},
		"key-file": {
			replace: []string{"api.example.com", "SITE", "{$KEYS:/var/lib/caddy-codex/keys}", keys.Path},
			header:  e2e.Bearer("alice's"),
			check: func(t *testing.T, s *e2e.Site) {
				if response, body := s.Post(e2e.ChatBody("say:no", nil), e2e.Bearer("eve's")); response.StatusCode != http.StatusUnauthorized {
					t.Errorf("another key: %d %s", response.StatusCode, body)
				}
			},
		},
		"other-routes": {
			replace: []string{"api.example.com", "SITE", "{$KEYS:/var/lib/caddy-codex/keys}", keys.Path, "{$PROVIDER:https://api.openai.com}", provider.URL},
			env:     map[string]string{"PROVIDER_KEY": "sk-provider"},
			header:  e2e.Bearer("alice's"),
			check: func(t *testing.T, s *e2e.Site) {
				embed := func(header http.Header) (*http.Response, string) {
					return s.Call(http.MethodPost, "/v1/embeddings", `{"input":"x"}`, header)
				}
				for _, header := range []http.Header{e2e.Bearer("three"), {"X-Api-Key": {"three"}, "Api-Key": {"three"}}} {
					if response, body := embed(header); response.StatusCode != http.StatusOK || body != "/v1/embeddings[Bearer sk-provider] [] []" {
						t.Errorf("the other provider: %d %s", response.StatusCode, body)
					}
				}
				if response, body := s.Post(e2e.ChatBody("say:ok", nil), e2e.Bearer("three")); response.StatusCode != http.StatusOK {
					t.Errorf("the last request: %d %s", response.StatusCode, body)
				}
				if response, body := s.Post(e2e.ChatBody("say:ok", nil), e2e.Bearer("three")); response.StatusCode != http.StatusTooManyRequests {
					t.Errorf("one more to Codex: %d %s", response.StatusCode, body)
				}
				if response, body := embed(e2e.Bearer("three")); response.StatusCode != http.StatusTooManyRequests || response.Header.Get("X-Should-Retry") != "false" ||
					!strings.Contains(body, `"code":"rate_limit_exceeded"`) {
					t.Errorf("one more to the other provider: %d %v %s", response.StatusCode, response.Header, body)
				}
				for key, code := range map[string]string{"eve's": "invalid_api_key", "old": "api_key_expired"} {
					if response, body := embed(e2e.Bearer(key)); response.StatusCode != http.StatusUnauthorized || !strings.Contains(body, code) {
						t.Errorf("%s: %d %s", key, response.StatusCode, body)
					}
				}
			},
		},
		"basic-auth": {
			replace: []string{":8080", "SITE"},
			header:  http.Header{"Authorization": {"Basic YWxpY2U6c2VjcmV0"}},
			check: func(t *testing.T, s *e2e.Site) {
				failsAs(t, s.Client(), http.StatusUnauthorized, "invalid_api_key", "The user or the password")
				client := s.Client(option.WithHeader("Authorization", "Basic YWxpY2U6c2VjcmV0"))
				if _, err := client.Chat.Completions.New(e2e.Context(t), e2e.UserSays("say:ok")); err != nil {
					t.Error(err)
				}
			},
		},
		"json-errors": {
			replace: []string{":8080", "SITE"},
			env:     map[string]string{"OTHER_PROVIDER": e2e.FreeAddr(t)},
			header:  http.Header{"Authorization": {"Basic YWxpY2U6c2VjcmV0"}},
			check: func(t *testing.T, s *e2e.Site) {
				alice := option.WithHeader("Authorization", "Basic YWxpY2U6c2VjcmV0")
				failsAs(t, s.Client(), http.StatusUnauthorized, "invalid_api_key", "The user or the password")
				failsAs(t, s.Client(option.WithBaseURL(s.URL+"/v2"), alice), http.StatusBadGateway, "", "502 Bad Gateway")
				large := strings.Repeat("x", 1<<20)
				client := s.Client(alice)
				_, err := client.Chat.Completions.New(e2e.Context(t), e2e.UserSays(large))
				checkError(t, err, http.StatusRequestEntityTooLarge, "request_too_large", "The request body is too large.")
			},
		},
		"forward-auth": {
			replace: []string{":8080", "SITE"},
			env:     map[string]string{"AUTH_SERVICE": strings.TrimPrefix(auth.URL, "http://")},
			header:  http.Header{"X-Session": {"carol's"}},
			check: func(t *testing.T, s *e2e.Site) {
				response, body := s.Post(e2e.ChatBody("say:no", nil), http.Header{"Remote-User": {"carol"}})
				if response.StatusCode != http.StatusForbidden {
					t.Errorf("nobody: %d %s", response.StatusCode, body)
				}
				forged := http.Header{"X-Session": {"dave's"}, "Remote-User": {"carol"}}
				if raw, _ := usageAs(s, forged); strings.Contains(raw, "carol") {
					t.Errorf("dave, who calls himself carol, sees %s", raw)
				}
				if raw, n := usageAs(s, http.Header{"X-Session": {"carol's"}}); n == 0 || !strings.Contains(raw, `"user":"carol@`) {
					t.Errorf("carol sees %s", raw)
				}
			},
		},
		"obsidian": {
			replace: []string{":8080", "SITE"},
			check: func(t *testing.T, s *e2e.Site) {
				response := s.Do(http.MethodOptions, "/v1/chat/completions", nil, http.Header{
					"Origin": {"app://obsidian.md"}, "Access-Control-Request-Method": {"POST"}})
				_ = s.Read(response)
				if got := response.Header.Get("Access-Control-Allow-Origin"); got != "app://obsidian.md" {
					t.Errorf("%s: the origin %q is allowed", response.Status, got)
				}
			},
		},
		"ollama": {
			replace: []string{":11434", "SITE"},
			check: func(t *testing.T, s *e2e.Site) {
				for path, want := range map[string]string{"/": "Ollama is running", "/api/tags": ":latest"} {
					if status, body := s.Get(path); status != http.StatusOK || !strings.Contains(body, want) {
						t.Errorf("%s: %d %s", path, status, body)
					}
				}
				response, text := s.Call(http.MethodPost, "/api/chat", e2e.ChatBody("say:An answer.", nil), nil)
				if response.StatusCode != http.StatusOK || !strings.Contains(text, `"done":true`) {
					t.Errorf("%s %s", response.Status, text)
				}
			},
		},
		"models": {
			replace: []string{":8080", "SITE"},
			check: func(t *testing.T, s *e2e.Site) {
				if _, body := s.Get("/v1/models"); !strings.Contains(body, `"fast"`) || !strings.Contains(body, `"deep"`) {
					t.Error(body)
				}
			},
		},
		"two-app-servers": {
			replace: []string{":8080", "SITE", "/var/lib/codex/first", "HOME", "/var/lib/codex/second", "SECOND"},
			check: func(t *testing.T, s *e2e.Site) {
				e2e.WaitFor(t, "all four processes", func() bool {
					_, body := s.Get("/readyz")
					return strings.Count(body, `{"app_server":"ready"`) == 4
				})
			},
		},
		"metrics": {
			replace: []string{":8080", "SITE", ":9180", "http://" + scrape, "{$TURN_LOG:/var/log/caddy/codex-turns.log}", turns},
			check: func(t *testing.T, s *e2e.Site) {
				response, err := http.Get("http://" + scrape + "/metrics")
				must.OK(t, err)
				if body := s.Read(response); !strings.Contains(body, "codex_tool_calls_total") {
					t.Errorf("%s: %.300s", response.Status, body)
				}
				e2e.WaitFor(t, "the turn in its log", func() bool {
					log, err := os.ReadFile(turns)
					return err == nil && strings.Count(string(log), `"msg":"turn"`) == 1
				})
			},
		},
	}
	redis := redisserver.Start(t)
	redis.Do("CONFIG SET requirepass secret")
	examples["cluster"] = example{
		replace: []string{":8080", "SITE", "redis:6379", redis.Addr},
		env:     map[string]string{"CLIENT_KEY": "theirs", "REDIS_PASSWORD": "secret"},
		header:  e2e.Bearer("theirs"),
		check: func(t *testing.T, s *e2e.Site) {
			r := s.Respond(e2e.Asks("say:Shared.", nil), e2e.Bearer("theirs"))
			response, body := s.Call(http.MethodGet, "/v1/responses/"+r.ID, nil, e2e.Bearer("theirs"))
			if response.StatusCode != http.StatusOK || !strings.Contains(body, "Shared.") {
				t.Errorf("%s %s", response.Status, body)
			}
		},
	}
	s, second := e2e.NewSite(t, ""), t.TempDir()
	there := s.Node()
	there.RunFile(there.Caddyfile("api_key bob's")).WaitUp()
	examples["remote"] = example{
		replace: []string{"codex.example.com", "SITE", "https://codex-1.example.com", there.URL},
		header:  e2e.Bearer("bob's"),
		check:   checkPassedOn,
	}
	e2e.WriteHome(t, second, s.Provider, codexhome.Options{})
	for _, name := range exampleNames(t) {
		t.Run(name, func(t *testing.T) {
			e, ok := examples[name]
			if !ok {
				t.Fatal("this example is not run")
			}
			e.run(t, s.At(t), name, second)
		})
	}
}

// checkPassedOn checks a Caddy that passes requests on to the one with the codex: the pieces of
// streams arrive one by one, a WebSocket works, and a client that leaves ends its turn.
func checkPassedOn(t *testing.T, s *e2e.Site) {
	response, body := s.Post(e2e.ChatBody("say:no", nil), e2e.Bearer("eve's"))
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("another key: %d %s", response.StatusCode, body)
	}
	for path, input := range map[string]e2e.Fields{
		"/v1/chat/completions": {"model": "gpt-5", "messages": []e2e.Fields{{"role": "user", "content": "say:Half; hang"}}},
		"/v1/responses":        {"model": "gpt-5", "input": "say:Half; hang"},
	} {
		input["stream"] = true
		stream := s.Do(http.MethodPost, path, strings.NewReader(e2e.EncodeJSON(input)), e2e.Bearer("bob's"))
		e2e.ReadUntil(t, stream.Body, "Half") // while the answer goes on
		s.WaitOpen(1)
		_ = stream.Body.Close()
		s.WaitOpen(0)
	}
	socket := s.DialResponses(e2e.Bearer("bob's"))
	defer socket.Conn.CloseNow()
	if r := socket.Respond(e2e.Asks("say:Over there.", nil)); r.Status != "completed" {
		t.Errorf("over a WebSocket: %+v", r)
	}
}

// failsAs checks the error of a request by a client of the official SDK.
func failsAs(t *testing.T, client openai.Client, status int, code, message string) {
	t.Helper()
	_, err := client.Chat.Completions.New(e2e.Context(t), e2e.UserSays("say:no"))
	checkError(t, err, status, code, message)
}

// checkError checks an error of the official SDK, which has these only if it can read the body.
func checkError(t *testing.T, err error, status int, code, message string) {
	t.Helper()
	apiErr, ok := errors.AsType[*openai.Error](err)
	if !ok || apiErr.StatusCode != status || apiErr.Code != code || !strings.Contains(apiErr.Message, message) {
		t.Errorf("%v, want %d %s %q", err, status, code, message)
	}
}

func exampleNames(t *testing.T) []string {
	files, err := filepath.Glob("../../../../examples/*.Caddyfile")
	if err != nil || len(files) == 0 {
		t.Fatal("no examples:", err)
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".Caddyfile")
	}
	return files
}

// run runs an example in place of what the site has. second is the home of a second app-server.
func (e example) run(t *testing.T, s *e2e.Site, name, second string) {
	text := e2e.ReadFile(t, "../../../../examples/"+name+".Caddyfile")
	for key, value := range e.env {
		t.Setenv(key, value)
	}
	for i := 0; i < len(e.replace); i += 2 {
		if !strings.Contains(text, e.replace[i]) {
			t.Fatalf("%q is not in the example", e.replace[i])
		}
		text = strings.ReplaceAll(text, e.replace[i], e.replace[i+1])
	}
	s.Load(strings.ReplaceAll(onThisMachine(s, text), "SECOND", second))
	e2e.WaitFor(t, "the example to be ready", func() bool {
		response := s.Do(http.MethodGet, "/readyz", nil, e.header)
		_ = s.Read(response)
		return response.StatusCode == http.StatusOK
	})
	response, body := s.Post(e2e.ChatBody("say:An example.", nil), e.header)
	if response.StatusCode != http.StatusOK || !strings.Contains(body, "An example.") {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	e.check(t, s)
}

// onThisMachine replaces the addresses and the codex in a Caddyfile.
func onThisMachine(s *e2e.Site, text string) string {
	text = strings.NewReplacer("SITE", s.URL, "HOME", s.Home).Replace(text)
	if strings.Contains(text, "app_server") {
		text = strings.ReplaceAll(text, "home ", fmt.Sprintf("command %s app-server\nhome ", e2e.CodexBinary))
	} else {
		text = strings.ReplaceAll(text, "\tcodex\n", "\tcodex {\n}\n")
		text = strings.ReplaceAll(text, "\tcodex {\n", "\tcodex {\n"+s.AppServer()+"\n")
	}
	const ofTests = "admin off\npersist_config off\nauto_https off\n"
	if before, after, found := strings.Cut(text, "\n{\n"); found {
		return before + "\n{\n" + ofTests + after
	}
	return "{\n" + ofTests + "}\n" + text
}

// standIns are programs for the commands of docs/deployment.md which change the machine. HOME_OF
// is the home with the login that `codex login` would make.
var standIns = map[string]string{
	"sudo":      `[ "$1" != -u ] || shift 2; exec "$@"`,
	"npm":       `exit 0`,
	"useradd":   `while [ "$1" != --home-dir ]; do shift; done; mkdir -p "$2"`,
	"systemctl": `exit 0`,
	"codex":     `[ "$1" != login ] || exec cp -r HOME_OF "$HOME/.codex"; exec REAL "$@"`,
}

// TestSystemdSteps runs the commands of docs/deployment.md for systemd one by one, below a directory,
// with stand-ins for what changes the machine, then the service as its unit says. The key that was
// made gets an answer, is not in the log, and nobody else can read the file with its hash.
func TestSystemdSteps(t *testing.T) {
	s := e2e.NewUnstarted(t)
	dir := t.TempDir()
	bin := filepath.Join(dir, "usr/local/bin")
	replace := strings.NewReplacer(
		"/usr/local", filepath.Join(dir, "usr/local"), "/etc/", dir+"/etc/", "/var/lib/caddy-codex", filepath.Join(dir, "home"),
		"/usr/bin:/bin", os.Getenv("PATH"), "localhost:8080", s.Addr, ":8080", s.Addr, "build/caddy", e2e.BuiltCaddy(t),
	)
	for _, made := range []string{bin, filepath.Join(dir, "etc/systemd/system")} {
		must.OK(t, os.MkdirAll(made, 0o755))
	}
	for name, script := range standIns {
		script = strings.NewReplacer("HOME_OF", s.Home, "REAL", e2e.CodexBinary).Replace(script)
		e2e.WriteFile(t, filepath.Join(bin, name), "#!/bin/sh\n"+script+"\n")
		must.OK(t, os.Chmod(filepath.Join(bin, name), 0o700))
	}
	shell := func(line string) (string, error) {
		cmd := exec.CommandContext(e2e.Context(t), "sh", "-c", replace.Replace(line))
		cmd.Dir = "../../../.."
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	_, page, _ := strings.Cut(e2e.ReadFile(t, "../../../../docs/deployment.md"), "## systemd\n")
	page, _, _ = strings.Cut(page, "\n## ")
	key := ""
	for _, match := range regexp.MustCompile(`(?m)^    (.+)$`).FindAllStringSubmatch(page, -1) {
		line := match[1]
		if strings.HasPrefix(line, "curl") {
			startService(t, s, dir, replace)
		}
		out, err := shell(line)
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		if made := regexp.MustCompile(`(?m)^sk-codex-\w+$`).FindString(out); made != "" {
			key = made
		}
	}
	if response, body := s.Post(e2e.ChatBody("say:It works.", nil), e2e.Bearer(key)); response.StatusCode != 200 || !strings.Contains(body, "It works.") {
		t.Errorf("%s %s", response.Status, body)
	}
	if response, _ := s.Post(e2e.ChatBody("say:no", nil), nil); response.StatusCode != 401 {
		t.Errorf("without a key: %s", response.Status)
	}
	if info, err := os.Stat(filepath.Join(dir, "home/keys")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of keys: %v %v", info, err)
	}
	if log := e2e.ReadFile(t, filepath.Join(dir, "log")); key == "" || strings.Contains(log, key) {
		t.Errorf("the key %q is in the log", key)
	}
}

// startService runs the program of the unit with its environment, until the end of the test.
func startService(t *testing.T, s *e2e.Site, dir string, replace *strings.Replacer) {
	t.Helper()
	caddyfile := filepath.Join(dir, "etc/caddy-codex/Caddyfile")
	adapted := strings.Replace(replace.Replace(e2e.ReadFile(t, caddyfile)), s.Addr+" {", "{\n\tadmin off\n}\nhttp://"+s.Addr+" {", 1)
	e2e.WriteFile(t, caddyfile, adapted)
	env := os.Environ()
	var args []string
	for line := range strings.Lines(e2e.ReadFile(t, filepath.Join(dir, "etc/systemd/system/caddy-codex.service"))) {
		name, value, _ := strings.Cut(replace.Replace(strings.TrimSpace(line)), "=")
		switch name {
		case "Environment":
			env = append(env, value)
		case "ExecStart":
			args = strings.Fields(value)
		}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	must.OK(t, err)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(env, "XDG_DATA_HOME=", "XDG_CONFIG_HOME="), log, log
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		_ = log.Close()
		if t.Failed() {
			t.Log(e2e.ReadFile(t, log.Name()))
		}
	})
	e2e.WaitFor(t, "the service to listen", func() bool {
		conn, err := net.Dial("tcp", s.Addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}
