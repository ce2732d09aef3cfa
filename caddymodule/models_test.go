package caddymodule

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/internal/option"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// Each option of models gives the expected JSON.
func TestModelDirectives(t *testing.T) {
	checkOptions(t, map[string]string{
		"model fast":                         `{"models":[{"id":"fast"}]}`,
		"model fast gpt-5":                   `{"models":[{"id":"fast","model":"gpt-5"}]}`,
		"model fast gpt-5 low\nmodel g":      `{"models":[{"id":"fast","model":"gpt-5","effort":"low"},{"id":"g"}]}`,
		"model fast gpt-5 low force":         `{"models":[{"id":"fast","model":"gpt-5","effort":"low","force_effort":true}]}`,
		"image_fetch on":                     `{"image_fetch":true}`,
		"image_fetch off":                    `{}`,
		"web_search on":                      `{"web_search":true}`,
		"web_search off":                     `{}`,
		"reasoning on":                       `{"reasoning":true}`,
		"instructions auto":                  `{"instructions":"auto"}`,
		"instructions replace":               `{"instructions":"replace"}`,
		"instructions append":                `{"instructions":"append"}`,
		"reasoning off\nmodel a b/c minimal": `{"reasoning":false,"models":[{"id":"a","model":"b/c","effort":"minimal"}]}`,
	})
}

// TestModelPlaceholders checks that placeholders in models are resolved, and that one that
// resolves to nothing, or to the name of another model, is an error.
func TestModelPlaceholders(t *testing.T) {
	t.Setenv("TEST_MODEL", "gpt-5")
	for model, want := range map[prompt.Alias]string{
		{ID: "fast", Model: "{env.TEST_MODEL}"}:        "",
		{ID: "{env.TEST_MODEL}"}:                       "",
		{ID: "fast", Model: "{env.TEST_NO_SUCH}"}:      "model 2 has a placeholder",
		{ID: "{env.TEST_NO_SUCH}"}:                     "model 2 has a placeholder",
		{ID: "{env.TEST_MODEL}-{env.TEST_MODEL}"}:      "",
		{ID: "other", Model: "x-{env.TEST_MODEL}"}:     "",
		{ID: "{file./no/such/file}", Model: "default"}: "model 2 has a placeholder",
	} {
		h := &Handler{Models: []prompt.Alias{{ID: "taken"}, model}}
		got, err := h.newAliases(caddy.NewReplacer())
		switch {
		case want != "":
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %q", model, err, want)
			}
		case err != nil || strings.ContainsAny(got[1].ID+got[1].Model, "{}") || !strings.Contains(got[1].Model, "gpt-5"):
			t.Errorf("%+v: %+v, %v", model, got, err)
		}
	}
	h := &Handler{Models: []prompt.Alias{{ID: "gpt-5"}, {ID: "{env.TEST_MODEL}"}}}
	if _, err := h.newAliases(caddy.NewReplacer()); err == nil || !strings.Contains(err.Error(), "model 2 has the name of another one") {
		t.Error(err)
	}
}

func TestModelDirectiveErrors(t *testing.T) {
	checkOptionErrors(t, map[string]string{
		"model":                 "after 'model'",
		"model a b low more":    `"more" must be one of force`,
		"model a b force":       `"force" must be one of none, minimal,`,
		"model a b low force x": "after 'x'",
		"model a b tiny":        `"tiny" must be one of none, minimal,`,
		"image_fetch":           "after 'image_fetch'",
		"image_fetch yes":       `"yes" must be one of on, off`,
		"web_search live":       `"live" must be one of on, off`,
		"reasoning summary":     `"summary" must be one of on, off`,
		"reasoning on off":      "after 'off'",
		"instructions":          "after 'instructions'",
		"instructions on":       `"on" must be one of auto, replace, append`,
	})
	err := new(Handler).UnmarshalCaddyfile(caddyfile.NewTestDispenser("codex {\nmodel a b\nmodel a c\n}"))
	wantError(t, err, "model a is given twice", "Testfile", 3)
}

func TestInvalidModels(t *testing.T) {
	for want, models := range map[string][]prompt.Alias{
		"the id must not be empty":             {{Model: "gpt-5"}},
		"model 2 has the name of another one,": {{ID: "a"}, {ID: "a"}},
		`"huge" must be one of none,`:          {{ID: "a", Effort: "huge"}},
		"a has no effort to force":             {{ID: "a", ForceEffort: true}},
		"a* stands for many names":             {{ID: "a*"}},
	} {
		h := &Handler{Models: models}
		if _, err := h.newAliases(caddy.NewReplacer()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	h := &Handler{Instructions: "x"}
	if err := h.complete(); err == nil || !strings.Contains(err.Error(), `"x" must be one of auto, `) {
		t.Error(err)
	}
}

// TestModelEfforts checks that an alias may have each effort that a request may name.
func TestModelEfforts(t *testing.T) {
	for _, o := range option.Of(new(prompt.Alias)) {
		if o.Name == "effort" && o.Syntax != strings.Join(prompt.Efforts, "|") {
			t.Errorf("the efforts of an alias are %s, those of a request %q", o.Syntax, prompt.Efforts)
		}
	}
}
