package operations

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// trouble provokes the messages of docs/troubleshooting.md.
type trouble struct {
	*e2e.Site
	t       *testing.T
	admin   *e2e.Site
	message string // that is to come
}

// start returns why an app-server does not start. A busy machine may have another reason first.
func (p *trouble) start(appServer string) string {
	p.t.Helper()
	p.Load(strings.Replace(p.Caddyfile(appServer), "admin off", "admin "+p.admin.Addr, 1))
	reason := ""
	e2e.WaitFor(p.t, "the reason", func() bool {
		server := p.admin.Status().AppServers[0]
		reason = server.Reason
		return strings.Contains(reason, p.message) && server.State == "backoff"
	})
	return reason
}

func (p *trouble) home(config string) string {
	home := p.t.TempDir()
	if config != "" {
		e2e.WriteFile(p.t, filepath.Join(home, "config.toml"), config)
	}
	return fmt.Sprintf("app_server {\ncommand %s app-server\nhome %s\n}", e2e.CodexBinary, home)
}

func (p *trouble) program(script string) string {
	path := filepath.Join(p.t.TempDir(), "program")
	e2e.WriteFile(p.t, path, "#!/bin/sh\n"+script+"\n")
	must.OK(p.t, os.Chmod(path, 0o700))
	return path
}

// ask returns the error of a request to a site with these options.
func (p *trouble) ask(options, body string, header http.Header) string {
	p.t.Helper()
	p.Load(p.Caddyfile(options))
	p.WaitReady()
	_, text := p.Post(body, header)
	return errorMessage(text)
}

// ownLogin returns an app-server block with its own login, which rests for a minute when refused.
func (p *trouble) ownLogin(provider string) string {
	home := p.t.TempDir()
	e2e.WriteHome(p.t, home, provider, codexhome.Options{})
	return "app_server " + e2e.CodexBinary + " app-server {\nhome " + home + "\n}"
}

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
	p.Load(p.Caddyfile("max_concurrent 1\n" + options))
	p.WaitReady()
	p.WaitOpen(0) // earlier streams have ended
	ctx, leave := e2e.ContextWithCancel(p.t)
	defer leave()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer leave()
	wg.Go(func() { p.PostUntil(ctx, e2e.ChatBody("hang", nil), nil) })
	p.WaitOpen(1)
	_, text := p.Post(e2e.ChatBody("say:no", nil), nil)
	return errorMessage(text)
}

// refused returns the error of a configuration.
func (p *trouble) refused(options string) string {
	if err := e2e.LoadCaddyfile(p.Caddyfile(options)); err != nil {
		return err.Error()
	}
	return "it was loaded"
}

// troubles are the messages, each with what provokes it.
var troubles = map[string]func(p *trouble) string{
	"executable file not found in $PATH": func(p *trouble) string { return p.start("app_server no-such-codex app-server") },
	"does not print its catalogue of models": func(p *trouble) string {
		return p.start("app_server " + p.program(`case "$*" in *debug*) exit 3;; esac; exec `+e2e.CodexBinary+` "$@"`) + " app-server {\nhome " + p.Home + "\n}")
	},
	"does not say which account this server has": func(p *trouble) string {
		e2e.WithLogin(p.t)
		home := e2e.NewHome(p.t, p.Model, codexhome.Options{})
		home.Plan.Fail(planbackend.Accounts, planbackend.Status(http.StatusInternalServerError))
		p.Load(p.Caddyfile("app_server " + e2e.CodexBinary + " app-server {\nhome " + home.Dir + "\n}"))
		message := ""
		e2e.WaitFor(p.t, "Codex's answer", func() bool { // the site is not ready once this trouble is known
			_, text := p.Post(e2e.ChatBody("say:no", nil), nil)
			message = errorMessage(text)
			return strings.Contains(message, p.message)
		})
		return message
	},
	"ended before it answered": func(p *trouble) string { return p.start("app_server echo app-server") },
	"codex is not logged in":   func(p *trouble) string { return p.start(p.home("")) },
	"codex's configuration cannot be used": func(p *trouble) string {
		return p.start(p.home("model = \"unfinished"))
	},
	"codex cannot use its configuration": func(p *trouble) string {
		return p.start(p.home("model_provider = \"no-such\""))
	},
	"codex cannot store its login": func(p *trouble) string {
		appServer := p.home(`model = "gpt-5"`)
		_, home, _ := strings.Cut(strings.TrimSuffix(appServer, "\n}"), "home ")
		e2e.WriteFile(p.t, filepath.Join(home, "auth.json"), `{"tokens":{"refresh_token":"r"}}`)
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
	"it did not answer within the start timeout": func(p *trouble) string {
		return p.start("app_server {\ncommand " + p.program("cat >/dev/null") + " app-server\n}")
	},
	"has a placeholder that is empty or unknown": func(p *trouble) string { return p.refused("api_key {env.TEST_NO_SUCH}") },
	"another process uses it": func(p *trouble) string {
		dir := p.t.TempDir()
		other := store.NewDisk(dir)
		must.OK(p.t, other.Start())
		defer other.Close()
		return p.refused("store disk " + dir)
	},
	"response_store_unavailable": func(p *trouble) string {
		p.Load(p.Caddyfile("store redis redis://" + e2e.FreeAddr(p.t)))
		_, text := p.Get("/v1/responses/resp_" + strings.Repeat("0", 26))
		return errorMessage(text)
	},
	"key_limits_unavailable": func(p *trouble) string {
		file := e2e.NewKeyFile(p.t, map[string]string{"sk-limited": "requests 9 1m"})
		return p.ask("api_keys_file "+file.Path+"\nstore redis redis://"+e2e.FreeAddr(p.t), e2e.ChatBody("say:no", nil), e2e.Bearer("sk-limited"))
	},
	"unrecognized directive": func(p *trouble) string {
		// Of another name, since this Caddy has the module.
		err := e2e.LoadCaddyfile(strings.Replace(p.Caddyfile(""), "\ncodex {", "\nno_codex {", 1))
		return fmt.Sprint(err)
	},
	"address already in use": func(p *trouble) string {
		other, err := net.Listen("tcp", "127.0.0.1:0")
		must.OK(p.t, err)
		defer other.Close()
		return fmt.Sprint(e2e.LoadCaddyfile(strings.ReplaceAll(p.Caddyfile(""), p.Addr, other.Addr().String())))
	},
	"signed by unknown authority": func(p *trouble) string {
		p.t.Setenv("XDG_DATA_HOME", p.t.TempDir())
		url := "https://localhost:" + p.Addr[strings.LastIndexByte(p.Addr, ':')+1:]
		text := strings.Replace(p.Caddyfile(""), p.URL+" {", url+" {\ntls internal", 1)
		must.OK(p.t, e2e.LoadCaddyfile(strings.Replace(text, "auto_https off", "skip_install_trust\nauto_https disable_redirects", 1)))
		message := ""
		e2e.WaitFor(p.t, "the certificate", func() bool {
			_, err := http.Get(url + "/healthz")
			message = fmt.Sprint(err)
			return strings.Contains(message, "authority")
		})
		return message
	},
	"The API key is missing or wrong.": func(p *trouble) string {
		return p.ask("api_key right", e2e.ChatBody("say:no", nil), e2e.Bearer("wrong"))
	},
	"Without an API key this server does not answer to the name": func(p *trouble) string {
		p.Load(p.Caddyfile(""))
		request, err := http.NewRequest(http.MethodPost, p.URL+"/v1/chat/completions", strings.NewReader("{}"))
		must.OK(p.t, err)
		request.Host = "codex.lan"
		// The site has an address of its own; another one accepts any name.
		p.Load(strings.Replace(p.Caddyfile(""), p.URL+" {", "http://:"+p.Addr[strings.LastIndexByte(p.Addr, ':')+1:]+" {", 1))
		response, err := http.DefaultClient.Do(request)
		must.OK(p.t, err)
		return errorMessage(p.Read(response))
	},
	"Pages of the origin": func(p *trouble) string {
		p.Load(p.Caddyfile(""))
		response := p.Do(http.MethodPost, "/v1/chat/completions", strings.NewReader("{}"),
			http.Header{"Origin": {"https://elsewhere.example"}, "Content-Type": {"text/plain"}})
		return errorMessage(p.Read(response))
	},
	"The request body is larger than the limit": func(p *trouble) string {
		return p.ask("max_body 1KiB", e2e.ChatBody(strings.Repeat("x", 2000), nil), nil)
	},
	"Too many requests are running or waiting here.": func(p *trouble) string { return p.busy("max_queue 0") },
	"No turn could be run here within":               func(p *trouble) string { return p.busy("max_queue 1 50ms") },
	"codex_exited": func(p *trouble) string {
		p.Load(p.Caddyfile(""))
		p.WaitReady()
		stream, err := p.Chat(e2e.Context(p.t), e2e.ChatBody("say:Half; hang", e2e.Fields{"stream": true}), nil)
		must.OK(p.t, err)
		e2e.ReadUntil(p.t, stream.Body, "Half")
		for _, pid := range e2e.Codexes(0) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return p.Read(stream)
	},
	"upstream_disconnected": func(p *trouble) string { return p.ask("", e2e.ChatBody("say:a; cutoff", nil), nil) },
	"the model's provider cannot be reached": func(p *trouble) string {
		return p.ask(p.ownLogin("http://"+e2e.FreeAddr(p.t)+"/v1"), e2e.ChatBody("say:no", nil), nil)
	},
	"codex_idle_timeout": func(p *trouble) string { return p.ask("idle_timeout 300ms", e2e.ChatBody("hang", nil), nil) },
	"codex_unauthorized": func(p *trouble) string { return p.ask(p.ownLogin(p.Provider), e2e.ChatBody("http:401", nil), nil) },
	"insufficient_quota": func(p *trouble) string {
		return p.ask(p.ownLogin(p.Provider), e2e.ChatBody("fail:insufficient_quota spent", nil), nil)
	},
}

var entry = regexp.MustCompile("(?m)^### `(.+)`$")

// TestTroubleshooting: each message of the page is provoked, and has its cause and remedy there.
func TestTroubleshooting(t *testing.T) {
	page := e2e.ReadFile(t, "../../../../docs/troubleshooting.md")
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
	s := e2e.NewSite(t, "")
	admin := s.WithAdmin(s.Caddyfile(""))
	for message, provoke := range troubles {
		if !documented[message] {
			t.Errorf("%q is not documented", message)
		}
		t.Run(strings.ReplaceAll(message, " ", "_"), func(t *testing.T) {
			p := &trouble{Site: s.At(t), t: t, admin: admin.At(t), message: message}
			if got := provoke(p); !strings.Contains(got, message) {
				t.Errorf("got %q", got)
			}
		})
	}
}
