package prompt

import (
	"slices"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestModelNames checks which names are listed, in which order, and which are known.
func TestModelNames(t *testing.T) {
	models := []codexrpc.Model{{ID: "a", Model: "a"}, {ID: "secret", Model: "secret", Hidden: true}, {ID: "b/c", Model: "b"}}
	all := func(string) bool { return true }
	for name, c := range map[string]struct {
		models  []codexrpc.Model
		aliases []Alias
		allowed func(string) bool
		want    []string
	}{
		"models":          {models, nil, all, []string{"a", "b/c", "default"}},
		"nothing":         {nil, nil, all, []string{"default"}},
		"aliases":         {models, []Alias{{ID: "z", Model: "a"}, {ID: "fast", Model: "secret", Effort: "low"}}, all, []string{"a", "b/c", "z", "fast", "default"}},
		"aliases alone":   {nil, []Alias{{ID: "z"}}, all, []string{"z", "default"}},
		"of a model's id": {models, []Alias{{ID: "a", Model: "b/c"}}, all, []string{"b/c", "a", "default"}},
		"of the default":  {models, []Alias{{ID: "default", Model: "a"}}, all, []string{"a", "b/c", "default"}},
		"of a hidden one": {models, []Alias{{ID: "secret", Model: "a"}}, all, []string{"a", "b/c", "secret", "default"}},
		"patterns":        {nil, []Alias{{ID: "claude-*", Model: "a"}, {ID: "claude-xy", Model: "c"}}, all, []string{"claude-xy", "default"}},
		"allowed ones":    {models, []Alias{{ID: "z", Model: "b"}}, func(id string) bool { return id == "z" }, []string{"z"}},
	} {
		if got := ModelNames(c.models, c.aliases, c.allowed); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for id, want := range map[string]bool{"a": true, "secret": true, "z": true, "default": true, "b/c": true, "": false, "A": false, "b": false} {
		if got := KnownModel(models, []Alias{{ID: "z", Model: "b"}}, id); got != want {
			t.Errorf("%q is known: %t", id, got)
		}
	}
}

// TestFindAlias checks which alias a name stands for.
func TestFindAlias(t *testing.T) {
	patterns := []Alias{{ID: "claude-*", Model: "a"}, {ID: "claude-x*", Model: "b"}, {ID: "claude-xy", Model: "c"}}
	for id, want := range map[string]string{"claude-opus": "a", "claude-": "a", "claude-xyz": "a", "claude-xy": "c", "claude": ""} {
		got := ""
		if alias := FindAlias(patterns, id); alias != nil {
			got = alias.Model
		}
		if got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
}
