package caddymodule

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-codex/caddy-codex/internal/apikeys"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func TestExposed(t *testing.T) {
	for address, want := range map[string]bool{
		":8080": true, "0.0.0.0:8080": true, "[::]:8080": true, "192.0.2.1:8080": true, "example.com:8080": true, "udp/:8080": true,
		"127.0.0.1:8080": false, "[::1]:8080": false, "localhost:8080": false, "unix//run/codex.sock": false,
	} {
		if got := isExposed([]string{"127.0.0.1:1", address}, nil); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}

// A handler with keys is not exposed, nor one behind a handler that asks who a client is.
func TestExposedAt(t *testing.T) {
	asking := caddyhttp.RouteList{{HandlersRaw: []json.RawMessage{json.RawMessage(`{"handler":"authentication"}`)}}}
	for name, c := range map[string]struct {
		keys   keyring
		routes caddyhttp.RouteList
		want   int
	}{
		"nobody asks": {want: 1},
		"a key":       {keys: keyring{apikeys.Hash{}: nil}},
		"basic_auth":  {routes: asking},
	} {
		server := &caddyhttp.Server{Listen: []string{":443"}, Routes: c.routes}
		h := &Handler{keys: c.keys}
		if got := h.exposedAddresses(context.WithValue(t.Context(), caddyhttp.ServerCtxKey, server)); len(got) != c.want {
			t.Errorf("%s: %q", name, got)
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
		if isExposed(server.Listen, server.Routes) && !strings.Contains(routes, `"api_keys`) {
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
