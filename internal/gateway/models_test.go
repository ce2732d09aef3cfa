package gateway

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/quota"
)

// TestPrefixedModels: names with the prefix that Claude Code gets, for keys that allow some models only. Aliases
// of the operator with such names come first, but for one of all names.
func TestPrefixedModels(t *testing.T) {
	u := talkative(t, 1)
	key := &quota.Key{ID: "k", Models: []string{"gpt-x", "fast", "anthropic/own"}}
	own := []prompt.Alias{{ID: "fast", Model: "gpt-y"}, {ID: "anthropic/own", Model: "gpt-z"}}
	for _, c := range []struct {
		aliases []prompt.Alias
		name    string
		model   string // of Codex; empty: the key does not allow the name
	}{
		{own, "gpt-x", "gpt-x"}, {own, "anthropic/gpt-x", "gpt-x"}, {own, "anthropic/fast", "gpt-y"}, {own, "anthropic/own", "gpt-z"},
		{own, "anthropic/gpt-y", ""}, {own, "own", ""}, {own, "anthropic/", ""}, {own, "anthropic/anthropic/gpt-x", ""},
		{[]prompt.Alias{{ID: "anthropic*", Model: "gpt-y"}}, "anthropic/gpt-x", ""},
		{[]prompt.Alias{{ID: "*", Model: "gpt-y"}, {ID: "fast", Model: "gpt-z"}}, "anthropic/fast", "gpt-z"},
	} {
		g := newGateway(u, Options{
			MaxConcurrent: 1, Aliases: c.aliases,
			Key: func(*http.Request) (*quota.Key, *apierror.Error) { return key, nil }, Limits: quota.NewLimits(quota.NewLedger(time.Now), 0, true),
		})
		if codexModel, _, _ := g.resolveModel(c.name); g.allows(key, c.name) != (c.model != "") || c.model != "" && codexModel != c.model {
			t.Errorf("%s is %s, allowed: %t", c.name, codexModel, g.allows(key, c.name))
		}
	}
}
