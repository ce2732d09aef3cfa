package caddymodule

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-codex/caddy-codex/internal/test/fakeserver"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// hostSites is a Caddyfile with sites that authenticate their callers in different ways, all
// on one port.
const hostSites = `{
	admin off
	persist_config off
	auto_https off
	servers {
		protocols h1 h2c
	}
}
(fake) {
	app_server {
		command %[2]q app-server
		env %[3]s hosts
	}
}
&(shared) {
	codex {
		import fake
	}
}
http://:%[1]s {
	bind 127.0.0.1
	@given host matched.example
	handle @given {
		codex {
			import fake
		}
	}
	codex {
		import fake
		hosts Listed.example *.wild.example {env.CADDYMODULE_HOST}
	}
}
http://site.example:%[1]s, http://*.sites.example:%[1]s {
	bind 127.0.0.1
	handle_path /ai/* {
		codex {
			import fake
		}
	}
	codex {
		import fake
	}
}
http://*.any.sites.example:%[1]s {
	bind 127.0.0.1
	codex {
		import fake
	}
}
http://invoked.example:%[1]s {
	bind 127.0.0.1
	invoke shared
}
http://failed.example:%[1]s {
	bind 127.0.0.1
	error 418
	handle_errors {
		codex {
			import fake
		}
	}
}
`

// TestHosts: a request under a foreign host name is refused, whatever the address of the
// site, but not if it is authenticated or a probe.
func TestHosts(t *testing.T) {
	t.Setenv("CADDYMODULE_HOST", "from-env.example")
	address := freeAddress(t)
	_, port, err := net.SplitHostPort(address)
	must.OK(t, err)
	pid(t, load(t, adapt(t, fmt.Sprintf(hostSites, port, fakeServer(t, "").Command[0], fakeserver.NameEnv))))
	if n := pooled(); n != 1 {
		t.Errorf("%d processes for sites with the same app-server", n)
	}
	for host, want := range map[string]int{
		"site.example": 200, "SITE.example:1": 200, "a.sites.example": 200, "b.any.sites.example": 200, "site.example/ai": 200,
		"matched.example": 200, "listed.example:8080": 200, "LISTED.EXAMPLE": 200, "x.wild.example": 200, "from-env.example": 200,
		"invoked.example": 200, "failed.example": 200,
		"localhost": 200, "LocalHost.:80": 200, "app.localhost:3000": 200, "127.0.0.1": 200, "[::1]:9": 200, "192.0.2.7": 200,

		"evil.example": 403, "x.y.wild.example": 403, "wild.example": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example:80": 403,
		"evillocalhost": 403, "site.example.": 403, "listed.example.evil.example": 403, "x.matched.example": 403,
	} {
		name, path, below := strings.Cut(host, "/")
		if below {
			path = "/" + path
		}
		checkHost(t, address, name, path, want)
	}
	if line := rawStatus(t, address, "GET /v1/models HTTP/1.0\r\n\r\n"); !strings.Contains(line, " 403 ") {
		t.Error("without a host:", line)
	}
	if line := rawStatus(t, address, "GET http://evil.example/v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); !strings.Contains(line, " 403 ") {
		t.Error("with another host in the URL:", line)
	}
}

// checkHost sends requests with a host name, over HTTP/1.1 and HTTP/2.
func checkHost(t *testing.T, address, host, prefix string, want int) {
	t.Helper()
	for _, http2 := range []bool{false, true} {
		for path, want := range map[string]int{"/v1/models": want, "/healthz": 200, "/readyz": 200} {
			var protocols http.Protocols
			protocols.SetHTTP1(!http2)
			protocols.SetUnencryptedHTTP2(http2)
			transport := &http.Transport{Protocols: &protocols}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+prefix+path, nil)
			must.OK(t, err)
			request.Host = host
			response, err := transport.RoundTrip(request)
			must.OK(t, err)
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			transport.CloseIdleConnections()
			if err != nil || response.StatusCode != want || want == 403 && !strings.Contains(string(body), `"code":"host_not_allowed"`) {
				t.Errorf("%s %s%s: %s %s, %v; want %d", host, prefix, path, response.Status, body, err, want)
			}
		}
	}
}

// rawStatus sends a request that no client would send, and returns the status line.
func rawStatus(t *testing.T, address, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	must.OK(t, err)
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	must.OK(t, err)
	return line
}

// Callers that a key or another handler has authenticated may use any host name.
func TestHostsOfKnownCallers(t *testing.T) {
	keyed := started(t, APIKey{Key: "right"})
	for key, want := range map[string]int{"right": 200, "wrong": 401} {
		if w, err := askAs(keyed, "evil.example", key, ""); err != nil || w != want {
			t.Errorf("the key %s: %d, %v", key, w, err)
		}
	}
	open := started(t)
	for user, want := range map[string]int{"bob": 200, "": 403} {
		if w, err := askAs(open, "evil.example", "", user); err != nil || w != want {
			t.Errorf("the user %q: %d, %v", user, w, err)
		}
	}
}

// askAs sends a request with a host name, with a key or as a user that another handler has
// authenticated.
func askAs(h *Handler, host, key, user string) (status int, err error) {
	w := httptest.NewRecorder()
	r, repl := prepared(http.MethodGet, "/v1/models")
	r.Host = host
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if user != "" {
		repl.Set("http.auth.user.id", user)
	}
	err = h.ServeHTTP(w, r, nil)
	return w.Code, err
}

// TestRealm checks whose account a request of alice is, by the site that leads to the handler.
func TestRealm(t *testing.T) {
	// route returns a route for the hosts with these names; without any, for all hosts.
	route := func(names string, h caddyhttp.MiddlewareHandler) caddyhttp.Route {
		r := caddyhttp.Route{Handlers: []caddyhttp.MiddlewareHandler{h}}
		if m := caddyhttp.MatchHost(strings.Fields(names)); len(m) > 0 {
			r.MatcherSets = caddyhttp.MatcherSets{caddyhttp.MatcherSet{&m}}
		}
		return r
	}
	for name, c := range map[string]struct {
		sites  []string // the hosts of each route to the handler
		part   string   // the hosts of a part of these sites, if there is one
		realm  string
		host   string
		listen string
		want   string
	}{
		"the first name":    {[]string{"A.example b.example"}, "", "", "b.example", ":443", "alice@a.example"},
		"another site":      {[]string{"c.example"}, "", "", "c.example", ":443", "alice@c.example"},
		"names of any kind": {[]string{"*.example"}, "", "", "x.example", ":443", "alice@*.example"},
		"no name":           {[]string{""}, "", "", "x.example", ":8080", "alice@:8080"},
		"none that matches": {[]string{"a.example"}, "", "", "x.example", ":8080", "alice@:8080"},
		"another port":      {[]string{"a.example"}, "", "", "a.example", "127.0.0.1:8443", "alice@a.example:8443"},
		"plain HTTP":        {[]string{"a.example"}, "", "", "a.example", ":80", "alice@a.example"},
		"a realm":           {[]string{"a.example"}, "", "shared", "a.example", ":443", "alice@shared"},
		"one of two":        {[]string{"a.example", "b.example"}, "", "", "a.example", ":443", "alice@a.example"},
		"a part of a site":  {[]string{"site.example api.site.example"}, "api.site.example", "", "api.site.example", ":443", "alice@site.example"},
	} {
		repl := caddy.NewReplacer()
		repl.Set("http.auth.user.id", "alice")
		h := &Handler{hosts: new(hosts), Realm: c.realm}
		must.OK(t, h.resolveRealm(repl))
		server := &caddyhttp.Server{Listen: []string{c.listen}}
		for _, site := range c.sites {
			leaf := route(c.part, h)
			server.Routes = append(server.Routes, route(site, &caddyhttp.Subroute{Routes: caddyhttp.RouteList{leaf}}))
		}
		r := httptest.NewRequest(http.MethodGet, "http://"+c.host+"/v1/models", nil)
		h.server, r = server, r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl))
		if got := h.accountOf(r); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		repl.Set("http.auth.user.id", strings.Repeat("alice", 100))
		if got := h.accountOf(r); len(got) > 200 || got == c.want {
			t.Errorf("%s: a long name is %s", name, got)
		}
	}
}

// TestRealmNames checks which names of a realm are refused, since two users could get one
// account, or a log two lines.
func TestRealmNames(t *testing.T) {
	for name, good := range map[string]bool{
		"a": true, "example.com": true, "büro": true, strings.Repeat("x", maxRealm): true,
		"": false, "a@b": false, "a b": false, "a\nb": false, "\xff": false, strings.Repeat("x", maxRealm+1): false,
	} {
		if err := checkRealm(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestReachable(t *testing.T) {
	for address, want := range map[string]bool{
		":8080": true, "0.0.0.0:8080": true, "[::]:8080": true, "192.0.2.1:8080": true, "example.com:8080": true, "udp/:8080": true,
		"127.0.0.1:8080": false, "[::1]:8080": false, "localhost:8080": false, "unix//run/codex.sock": false,
	} {
		if got := isReachable(address); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}

// TestExposed checks for which sites Caddy says that everybody may use the login.
func TestExposed(t *testing.T) {
	const auth = "basic_auth {\nalice $2a$10$vCZTQOtpLNsk6Ylq47rppurjgUd45kLtq3v50LhPGe5ixDuHrAseS\n}\n"
	for name, c := range map[string]struct {
		site string
		want bool
	}{
		"nobody asks":                {"codex", true},
		"harmless directives":        {"header X y\nencode\nrequest_body {\nmax_size 1MB\n}\nvars a b\ncodex", true},
		"a handle beside":            {"handle /v2/* {\n" + auth + "reverse_proxy localhost:1\n}\ncodex", true},
		"the other of two handles":   {"handle /v2/* {\n" + auth + "respond x\n}\nhandle {\ncodex\n}", true},
		"elsewhere only":             {"basic_auth /admin/* {\nalice $2a$10$vCZTQOtpLNsk6Ylq47rppurjgUd45kLtq3v50LhPGe5ixDuHrAseS\n}\ncodex", true},
		"some addresses are refused": {"@bad remote_ip 198.51.100.0/24\nrespond @bad 403\ncodex", true},
		"a key":                      {"codex {\napi_key k\n}", false},
		"basic_auth":                 {auth + "codex", false},
		"basic_auth and a handle":    {auth + "codex\nhandle /v2/* {\nrespond x\n}", false},
		"basic_auth in the handle":   {"handle /v1/* {\n" + auth + "codex\n}", false},
		"but for preflights":         {"@login not {\nmethod OPTIONS\nheader Access-Control-Request-Method *\n}\n" + strings.Replace(auth, "{", "@login {", 1) + "codex", false},
		"basic_auth for one path":    {strings.Replace(auth, "{", "/v1/* {", 1) + "codex", true},
		"for the only one":           {strings.Replace(auth, "{", "/v1/* {", 1) + "codex\nrespond x", false},
		"codex_keys":                 {"codex_keys {\napi_key k\n}\ncodex", false},
		"forward_auth":               {"forward_auth localhost:1 {\nuri /\n}\ncodex", false},
		"forward_auth in a route":    {"route {\nforward_auth localhost:1 {\nuri /\n}\ncodex\n}", false},
		"remote_ip":                  {"@home remote_ip private_ranges\nhandle @home {\ncodex\n}", false},
		"client_ip":                  {"@out not client_ip private_ranges\nabort @out\ncodex", false},
		"a secret header":            {"@known header X-Secret s\nhandle @known {\ncodex\n}\nrespond 403", false},
		"not reached":                {"handle {\nrespond x\n}\ncodex", false},
	} {
		for _, address := range []string{"http://site.example:%s, http://*.site.example:%[1]s", "http://:%s"} {
			_, port, err := net.SplitHostPort(freeAddress(t))
			must.OK(t, err)
			text := fmt.Sprintf("{\nadmin off\n}\n"+address+" {\n"+c.site+"\n}", port)
			cfg := new(caddy.Config)
			must.OK(t, json.Unmarshal(adapt(t, text), cfg))
			ctx, cleanup := newContext(t)
			_, err = ctx.LoadModuleByID("http", cfg.AppsRaw["http"])
			must.OK(t, err)
			exposed := false
			for _, h := range handlersInUse.all() {
				exposed = exposed || h.isExposed()
			}
			if exposed != c.want {
				t.Errorf("%s at %s: %t", name, address, exposed)
			}
			cleanup()
		}
	}
}

// exposedServers returns the addresses of the servers of a Caddyfile with which everybody may
// use a login, and whether the file is a whole one that uses this module.
func exposedServers(t *testing.T, text string) (listen []string, uses bool) {
	t.Helper()
	adapter := caddyfile.Adapter{ServerType: httpcaddyfile.ServerType{}}
	adapted, _, err := adapter.Adapt([]byte(text), nil)
	if err != nil {
		return nil, false // a part of a file
	}
	var config struct {
		Apps struct {
			HTTP struct {
				Servers map[string]struct {
					Listen []string        `json:"listen"`
					Routes json.RawMessage `json:"routes"`
				} `json:"servers"`
			} `json:"http"`
		} `json:"apps"`
	}
	must.OK(t, json.Unmarshal(adapted, &config))
	for _, server := range config.Apps.HTTP.Servers {
		routes := string(server.Routes)
		if !strings.Contains(routes, `"handler":"codex"`) {
			continue
		}
		uses = true
		asks := regexp.MustCompile(`"(authentication|api_keys|api_keys_file)"|http\.auth\.user\.id`)
		if slices.ContainsFunc(server.Listen, isReachable) && !asks.MatchString(routes) {
			listen = append(listen, server.Listen...)
		}
	}
	return listen, uses
}

// Whoever copies an example, or a Caddyfile of the docs, does not open a login to the network.
func TestExamplesAreNotExposed(t *testing.T) {
	block := regexp.MustCompile(`(?m)(^(?: {4}.*)?\n)+`) // and the empty lines between
	checked := 0
	check := func(name, text string) {
		text = regexp.MustCompile(`\{\$\w+:?([^}]*)\}`).ReplaceAllString(text, "x$1")
		listen, uses := exposedServers(t, text)
		if uses {
			checked++
		}
		if len(listen) > 0 {
			t.Errorf("%s opens a login at %q:\n%s", name, listen, text)
		}
	}
	for _, file := range exampleFiles(t) {
		check(file, readText(t, file))
	}
	pages, err := filepath.Glob("../docs/*.md")
	must.OK(t, err)
	for _, page := range append(pages, "../README.md", "../SECURITY.md") {
		content, err := os.ReadFile(page)
		must.OK(t, err)
		for _, found := range block.FindAllStringSubmatch(string(content), -1) {
			if strings.Contains(found[0], "codex") && strings.Contains(found[0], "{\n") {
				check(page, found[0])
			}
		}
	}
	if checked < 15 {
		t.Errorf("only %d Caddyfiles are checked", checked)
	}
}
