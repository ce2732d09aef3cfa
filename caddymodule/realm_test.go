package caddymodule

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestRealm checks whose account a request of alice is, by the site that leads to the
// handler.
func TestRealm(t *testing.T) {
	host := func(names ...string) caddyhttp.MatcherSet {
		m := caddyhttp.MatchHost(names)
		return caddyhttp.MatcherSet{&m}
	}
	route := func(set caddyhttp.MatcherSet, h caddyhttp.MiddlewareHandler) caddyhttp.Route {
		r := caddyhttp.Route{Handlers: []caddyhttp.MiddlewareHandler{h}}
		if set != nil {
			r.MatcherSets = caddyhttp.MatcherSets{set}
		}
		return r
	}
	for name, c := range map[string]struct {
		routes func(*Handler) caddyhttp.RouteList
		realm  string
		host   string
		listen string
		want   string
	}{
		"the first name": {func(h *Handler) caddyhttp.RouteList {
			return caddyhttp.RouteList{route(host("A.example", "b.example"), h)}
		}, "", "b.example", ":443", "alice@a.example"},
		"another site":      {func(h *Handler) caddyhttp.RouteList { return caddyhttp.RouteList{route(host("c.example"), h)} }, "", "c.example", ":443", "alice@c.example"},
		"names of any kind": {func(h *Handler) caddyhttp.RouteList { return caddyhttp.RouteList{route(host("*.example"), h)} }, "", "x.example", ":443", "alice@*.example"},
		"no name":           {func(h *Handler) caddyhttp.RouteList { return caddyhttp.RouteList{route(nil, h)} }, "", "x.example", ":8080", "alice@:8080"},
		"none that matches": {func(h *Handler) caddyhttp.RouteList { return caddyhttp.RouteList{route(host("a.example"), h)} }, "", "x.example", ":8080", "alice@:8080"},
		"another port":      {func(h *Handler) caddyhttp.RouteList { return caddyhttp.RouteList{route(host("a.example"), h)} }, "", "a.example", "127.0.0.1:8443", "alice@a.example:8443"},
		"plain HTTP":        {func(h *Handler) caddyhttp.RouteList { return caddyhttp.RouteList{route(host("a.example"), h)} }, "", "a.example", ":80", "alice@a.example"},
		"a realm":           {func(h *Handler) caddyhttp.RouteList { return caddyhttp.RouteList{route(host("a.example"), h)} }, "shared", "a.example", ":443", "alice@shared"},
		"one of two": {func(h *Handler) caddyhttp.RouteList {
			return caddyhttp.RouteList{route(host("a.example"), h), route(host("b.example"), h)}
		}, "", "a.example", ":443", "alice@a.example"},
		"a part of a site": {func(h *Handler) caddyhttp.RouteList {
			return caddyhttp.RouteList{route(host("site.example", "api.site.example"), &caddyhttp.Subroute{Routes: caddyhttp.RouteList{route(host("api.site.example"), h)}})}
		}, "", "api.site.example", ":443", "alice@site.example"},
	} {
		repl := caddy.NewReplacer()
		repl.Set("http.auth.user.id", "alice")
		h := &Handler{hosts: new(hosts), Realm: c.realm}
		if err := h.resolveRealm(repl); err != nil {
			t.Fatal(err)
		}
		server := &caddyhttp.Server{Listen: []string{c.listen}, Routes: c.routes(h)}
		r := httptest.NewRequest(http.MethodGet, "http://"+c.host+"/v1/models", nil)
		ctx := context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl)
		r = r.WithContext(context.WithValue(ctx, caddyhttp.ServerCtxKey, server))
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
	h := &Handler{Realm: "{env.NO_SUCH_VARIABLE_IS_SET}"}
	if err := h.resolveRealm(caddy.NewReplacer()); err == nil {
		t.Error("a placeholder without a value is a realm")
	}
}
