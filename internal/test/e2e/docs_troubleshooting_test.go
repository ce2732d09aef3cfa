package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
)

// trouble provokes the messages of docs/troubleshooting.md.
type trouble struct {
	*site
	t       *testing.T
	admin   *site
	message string // that is to come
}

// start returns the reason of an app-server that does not start. On a busy machine there
// may be another one first.
func (p *trouble) start(appServer string) string {
	p.t.Helper()
	p.load(strings.Replace(p.caddyfile(appServer), "admin off", "admin "+p.admin.addr, 1))
	reason := ""
	waitFor(p.t, "the reason", func() bool {
		server := p.admin.status().AppServers[0]
		reason = server.Reason
		return strings.Contains(reason, p.message) && server.State == "backoff"
	})
	return reason
}

// home returns the block of a real app-server with a home that has this config.toml.
func (p *trouble) home(config string) string {
	home := p.t.TempDir()
	if config != "" {
		writeFile(p.t, filepath.Join(home, "config.toml"), config)
	}
	return fmt.Sprintf("app_server {\ncommand %s app-server\nhome %s\n}", codexBinary, home)
}

// program returns the command of a shell script.
func (p *trouble) program(script string) string {
	path := filepath.Join(p.t.TempDir(), "program")
	writeFile(p.t, path, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(path, 0o700); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// ask returns the error of a request to a site with these options.
func (p *trouble) ask(options, body string, header http.Header) string {
	p.t.Helper()
	p.load(p.caddyfile(options))
	p.waitReady()
	_, text := p.post(body, header)
	return errorMessage(text)
}

// path returns the error of another path.
func (p *trouble) path(path string) string {
	p.load(p.caddyfile("")) // without keys, whatever was loaded before
	_, text := p.get(path)
	return errorMessage(text)
}

// errorMessage returns the message and the code of an error.
func errorMessage(text string) string {
	var body struct {
		Error struct{ Message, Code string }
	}
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		return text
	}
	return body.Error.Message + " " + body.Error.Code
}

// busy returns the error of a request while another one has the only place.
func (p *trouble) busy(options string) string {
	p.t.Helper()
	p.load(p.caddyfile("max_concurrent 1\n" + options))
	p.waitReady()
	ctx, leave := contextFor(p.t)
	defer leave()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer leave()
	wg.Go(func() { p.postUntil(ctx, chatBody("hang", nil), nil) })
	p.waitOpen(1)
	_, text := p.post(chatBody("say:no", nil), nil)
	return errorMessage(text)
}

// refused returns the error of a configuration.
func (p *trouble) refused(options string) string {
	if err := loadCaddyfile(p.caddyfile(options)); err != nil {
		return err.Error()
	}
	return "it was loaded"
}

// tooOld answers as an old release of Codex does.
const tooOld = `while read -r line; do
	id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
	[ -n "$id" ] && printf '{"id":%s,"result":{"userAgent":"x/0.120.0 (x)"}}\n' "$id"
done`

// troubles are the messages, each with what provokes it.
var troubles = map[string]func(p *trouble) string{
	"executable file not found in $PATH": func(p *trouble) string { return p.start("app_server no-such-codex app-server") },
	"has no argument app-server":         func(p *trouble) string { return p.start("app_server " + codexBinary) },
	"ended before it answered":           func(p *trouble) string { return p.start("app_server echo app-server") },
	"is too old":                         func(p *trouble) string { return p.start("app_server " + p.program(tooOld) + " app-server") },
	"codex is not logged in":             func(p *trouble) string { return p.start(p.home("")) },
	"codex's configuration cannot be used": func(p *trouble) string {
		return p.start(p.home("model = \"unfinished"))
	},
	"codex cannot use its configuration": func(p *trouble) string {
		return p.start(p.home("model_provider = \"no-such\""))
	},
	"codex cannot store its login": func(p *trouble) string {
		appServer := p.home(`model = "gpt-5"`)
		_, home, _ := strings.Cut(strings.TrimSuffix(appServer, "\n}"), "home ")
		writeFile(p.t, filepath.Join(home, "auth.json"), `{"tokens":{"refresh_token":"r"}}`)
		if err := os.Mkdir(filepath.Join(home, "auth.lock"), 0o700); err != nil { // root may write to any file
			p.t.Fatal(err)
		}
		return p.start(appServer)
	},
	"cannot make a directory for codex": func(p *trouble) string {
		appServer := p.home(`model = "gpt-5"`)
		p.t.Setenv("TMPDIR", "/nonexistent")
		return p.start(appServer)
	},
	"cannot start in the working directory": func(p *trouble) string {
		return p.start("app_server {\ncommand " + codexBinary + " app-server\ndir /nonexistent\n}")
	},
	"it did not answer within the start timeout": func(p *trouble) string {
		return p.start("app_server {\ncommand " + p.program("cat >/dev/null") + " app-server\nstart_timeout 100ms\n}")
	},
	"nobody listens there": func(p *trouble) string { return p.start(remote("ws://"+freeAddr(p.t), "")) },
	"no WebSocket is served there": func(p *trouble) string {
		server := httptest.NewServer(http.NotFoundHandler())
		defer server.Close()
		return p.start(remote("ws"+strings.TrimPrefix(server.URL, "http"), ""))
	},
	"the token is not the one it was started with": func(p *trouble) string {
		address, _ := newLab(p.t).listen("ws://127.0.0.1:0", guarded(p.t)...)
		return p.start(remote(address, "another"))
	},
	"has a placeholder that is empty or unknown": func(p *trouble) string { return p.refused("api_key {env.TEST_NO_SUCH}") },
	"unrecognized directive": func(p *trouble) string {
		// Of another name, since this Caddy has the module.
		err := loadCaddyfile(strings.Replace(p.caddyfile(""), "\ncodex {", "\nno_codex {", 1))
		return fmt.Sprint(err)
	},
	"address already in use": func(p *trouble) string {
		other, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			p.t.Fatal(err)
		}
		defer other.Close()
		return fmt.Sprint(loadCaddyfile(strings.ReplaceAll(p.caddyfile(""), p.addr, other.Addr().String())))
	},
	"signed by unknown authority": func(p *trouble) string {
		p.t.Setenv("XDG_DATA_HOME", p.t.TempDir())
		url := "https://localhost:" + p.addr[strings.LastIndexByte(p.addr, ':')+1:]
		text := strings.Replace(p.caddyfile(""), p.url+" {", url+" {\ntls internal", 1)
		if err := loadCaddyfile(strings.Replace(text, "auto_https off", "skip_install_trust\nauto_https disable_redirects", 1)); err != nil {
			p.t.Fatal(err)
		}
		message := ""
		waitFor(p.t, "the certificate", func() bool {
			_, err := http.Get(url + "/healthz")
			message = fmt.Sprint(err)
			return strings.Contains(message, "authority")
		})
		return message
	},
	"The API key is missing or wrong.": func(p *trouble) string {
		return p.ask("api_key right", chatBody("say:no", nil), bearer("wrong"))
	},
	"The API key expired at": func(p *trouble) string {
		path := filepath.Join(p.t.TempDir(), "keys")
		sum := sha256.Sum256([]byte("sk-old"))
		writeFile(p.t, path, fmt.Sprintf("key old {\n\thash sha256:%x\n\texpires 2020-01-01T00:00:00Z\n}\n", sum))
		p.load(p.caddyfile("api_keys_file " + path))
		_, text := p.post(chatBody("say:no", nil), bearer("sk-old"))
		return errorMessage(text)
	},
	"Without an API key this server does not answer to the name": func(p *trouble) string {
		p.load(p.caddyfile(""))
		request, err := http.NewRequest(http.MethodPost, p.url+"/v1/chat/completions", strings.NewReader("{}"))
		if err != nil {
			p.t.Fatal(err)
		}
		request.Host = "codex.lan"
		// The site has an address of its own; another one accepts any name.
		p.load(strings.Replace(p.caddyfile(""), p.url+" {", "http://:"+p.addr[strings.LastIndexByte(p.addr, ':')+1:]+" {", 1))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			p.t.Fatal(err)
		}
		return errorMessage(p.read(response))
	},
	"Pages of the origin": func(p *trouble) string {
		p.load(p.caddyfile(""))
		response := p.do(http.MethodPost, "/v1/chat/completions", strings.NewReader("{}"),
			http.Header{"Origin": {"https://elsewhere.example"}, "Content-Type": {"text/plain"}})
		return errorMessage(p.read(response))
	},
	"This is an OpenAI-compatible API with the base URL": func(p *trouble) string { return p.path("/nothing") },
	"Unknown request URL":                                func(p *trouble) string { return p.path("/v1/nothing") },
	"Codex has no embeddings":                            func(p *trouble) string { return p.path("/v1/embeddings") },
	"does not exist here": func(p *trouble) string {
		p.load(p.caddyfile(""))
		p.waitReady()
		return p.path("/v1/models/no-such")
	},
	"The request body is larger than the limit": func(p *trouble) string {
		return p.ask("max_body 1KiB", chatBody(strings.Repeat("x", 2000), nil), nil)
	},
	"Too many requests are running or waiting here.": func(p *trouble) string { return p.busy("max_queue 0") },
	"No turn could be run here within":               func(p *trouble) string { return p.busy("max_queue 1 50ms") },
	"codex_not_ready": func(p *trouble) string {
		p.load(p.caddyfile("app_server no-such-codex app-server"))
		_, text := p.post(chatBody("say:no", nil), nil)
		return errorMessage(text)
	},
	"codex_exited": func(p *trouble) string {
		p.load(p.caddyfile(""))
		p.waitReady()
		failed := make(chan string, 1)
		go func() {
			_, text := p.post(chatBody("hang", nil), nil)
			failed <- errorMessage(text)
		}()
		p.waitOpen(1)
		for _, pid := range codexes(0) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return <-failed
	},
	"upstream_disconnected": func(p *trouble) string { return p.ask("", chatBody("say:a; cutoff", nil), nil) },
	"the model's provider cannot be reached": func(p *trouble) string {
		home := p.t.TempDir()
		writeHome(p.t, home, "http://"+freeAddr(p.t)+"/v1", codexhome.Options{})
		p.load(p.caddyfile("idle_timeout 1s\napp_server " + codexBinary + " app-server {\nhome " + home + "\n}"))
		p.waitReady()
		_, text := p.post(chatBody("say:no", nil), nil)
		return errorMessage(text)
	},
	"codex_idle_timeout":  func(p *trouble) string { return p.ask("idle_timeout 300ms", chatBody("hang", nil), nil) },
	"codex_unauthorized":  func(p *trouble) string { return p.ask("", chatBody("http:401", nil), nil) },
	"rate_limit_exceeded": func(p *trouble) string { return p.ask("", chatBody("http:429", nil), nil) },
	"insufficient_quota": func(p *trouble) string {
		return p.ask("", chatBody("fail:insufficient_quota spent", nil), nil)
	},
	"context_length_exceeded": func(p *trouble) string {
		return p.ask("", chatBody("fail:context_length_exceeded long", nil), nil)
	},
}

var entry = regexp.MustCompile("(?m)^### `(.+)`$")

// TestTroubleshooting checks that each message of the page is provoked, and that each has
// its cause and its remedy there.
func TestTroubleshooting(t *testing.T) {
	page := readFile(t, "../../../docs/troubleshooting.md")
	documented := make(map[string]bool)
	for _, part := range entry.FindAllStringSubmatch(page, -1) {
		documented[part[1]] = true
		if troubles[part[1]] == nil {
			t.Errorf("nothing provokes %q", part[1])
		}
	}
	for _, part := range strings.Split(page, "\n### ")[1:] {
		if !strings.Contains(part, "\nCause: ") || !strings.Contains(part, "\nRemedy: ") {
			t.Errorf("no cause or no remedy: %.80s", part)
		}
	}
	s := newSite(t, "")
	admin := s.withAdmin(s.caddyfile(""))
	for message, provoke := range troubles {
		if !documented[message] {
			t.Errorf("%q is not documented", message)
		}
		t.Run(strings.ReplaceAll(message, " ", "_"), func(t *testing.T) {
			p := &trouble{site: s.at(t), t: t, admin: admin.at(t), message: message}
			if got := provoke(p); !strings.Contains(got, message) {
				t.Errorf("got %q", got)
			}
		})
	}
}
