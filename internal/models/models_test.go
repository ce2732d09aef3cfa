package models

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

func TestModels(t *testing.T) {
	models := []codexrpc.Model{{ID: "a", Model: "a"}, {ID: "secret", Model: "secret", Hidden: true}, {ID: `b"/c`, Model: "b"}}
	object := func(id string) string { return `{"id":"` + id + `","object":"model","created":42,"owned_by":"codex"}` }
	for name, c := range map[string]struct {
		models  []codexrpc.Model
		aliases []Alias
		want    string
	}{
		"models":          {models, nil, object("a") + `,` + object(`b\"/c`)},
		"nothing":         {nil, nil, ``},
		"aliases":         {models, []Alias{{ID: "z", Model: "a"}, {ID: "fast", Model: "secret", Effort: "low"}}, object("a") + `,` + object(`b\"/c`) + `,` + object("z") + `,` + object("fast")},
		"aliases alone":   {nil, []Alias{{ID: "z"}}, object("z")},
		"of a model's id": {models, []Alias{{ID: "a", Model: `b"/c`}}, object(`b\"/c`) + `,` + object("a")},
		"of the default":  {models, []Alias{{ID: "default", Model: "a"}}, object("a") + `,` + object(`b\"/c`) + `,` + object("default")},
		"of a hidden one": {models, []Alias{{ID: "secret", Model: "a"}}, object("a") + `,` + object(`b\"/c`) + `,` + object("secret")},
	} {
		want := strings.TrimPrefix(c.want+","+object("default"), ",")
		if slices.ContainsFunc(c.aliases, func(a Alias) bool { return a.ID == "default" }) {
			want = c.want
		}
		if got, want := string(List(c.models, c.aliases, 42, func(string) bool { return true })), `{"object":"list","data":[`+want+`]}`; got != want {
			t.Errorf("%s: list %s, want %s", name, got, want)
		}
	}
	aliases := []Alias{{ID: "z", Model: "b"}}
	allowed := func(id string) bool { return id == "z" }
	if got, want := string(List(models, aliases, 42, allowed)), `{"object":"list","data":[`+object("z")+`]}`; got != want {
		t.Errorf("the allowed ones: %s", got)
	}
	for id, want := range map[string]string{"a": object("a"), "secret": object("secret"), "z": object("z"), "default": object("default"), `b"/c`: object(`b\"/c`)} {
		if got, ok := Object(models, aliases, id, 42); !ok || string(got) != want {
			t.Errorf("%s: %s, %v", id, got, ok)
		}
	}
	patterns := []Alias{{ID: "claude-*", Model: "a"}, {ID: "claude-x*", Model: "b"}, {ID: "claude-xy", Model: "c"}}
	for id, want := range map[string]string{"claude-opus": "a", "claude-": "a", "claude-xyz": "a", "claude-xy": "c", "claude": ""} {
		got := ""
		if alias := Find(patterns, id); alias != nil {
			got = alias.Model
		}
		if got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
	if got := Names(nil, patterns, func(string) bool { return true }); !slices.Equal(got, []string{"claude-xy", "default"}) {
		t.Errorf("patterns are listed: %s", got)
	}
	for _, id := range []string{"", "A", "b"} {
		if got, ok := Object(models, aliases, id, 42); ok {
			t.Errorf("%q was found: %s", id, got)
		}
	}
}
