package chat

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestEveryModel checks for each model that it gets the client's tool and no other, and
// that the client gets its call.
func TestEveryModel(t *testing.T) {
	s := e2e.NewSite(t, "")
	models := slices.DeleteFunc(s.Models(), func(id string) bool { return id == "default" })
	if len(models) < 2 {
		t.Fatalf("there are no models to choose from: %q", models)
	}
	for _, model := range models {
		t.Run(model, func(t *testing.T) {
			bothWays(t, s.At(t), func(t *testing.T, ask func(openai.ChatCompletionNewParams) (e2e.Answer, error)) {
				s.At(t).CheckModel(model, ask)
			})
		})
	}
}

// TestDefaultModel checks that `default` is the model of Codex's configuration, or else
// the default of Codex's list, that it is listed, and that an alias of the name goes first.
func TestDefaultModel(t *testing.T) {
	s := e2e.NewUnstarted(t)
	config := filepath.Join(s.Home, "config.toml")
	provider := strings.Replace(e2e.ReadFile(t, config), "model = \"gpt-5\"\n", "", 1)
	e2e.WriteFile(t, config, provider)
	s.Serve("")
	s.WaitReady()
	ask := func(want string) {
		t.Helper()
		response, text := s.Post(strings.Replace(e2e.ChatBody("say:Hello", nil), "gpt-5", "default", 1), nil)
		if response.StatusCode != http.StatusOK || !strings.Contains(text, `"model":"default"`) {
			t.Fatal(response.StatusCode, text)
		}
		if request, _ := s.Model.Last(); request.Model != want {
			t.Errorf("%q was asked, want %q", request.Model, want)
		}
	}
	first := defaultModel(t, s)
	ask(first)
	listed := s.Models()
	if listed[len(listed)-1] != "default" {
		t.Errorf("it is not listed: %q", listed)
	}
	if status, text := s.Get("/v1/models/default"); status != http.StatusOK {
		t.Error(status, text)
	}
	s.Load(s.Caddyfile("model default gpt-5.5 low\nmodel fast default low"))
	s.WaitReady()
	ask("gpt-5.5")
	response, text := s.Post(strings.Replace(e2e.ChatBody("say:Hello", nil), "gpt-5", "fast", 1), nil)
	if request, _ := s.Model.Last(); response.StatusCode != http.StatusOK || request.Model != first {
		t.Errorf("an alias of it: %d %s; %q was asked", response.StatusCode, text, request.Model)
	}
	e2e.WriteFile(t, config, "model = \"gpt-5\"\n"+provider)
	s.Load(s.Caddyfile("app_server {\ncommand " + e2e.CodexBinary + " app-server\nhome " + s.Home + "\nenv A B\n}")) // another process
	s.WaitReady()
	ask("gpt-5")
}

// defaultModel returns the default of Codex's list: the first one, or with a login the one
// to which the back end gives the first place.
func defaultModel(t *testing.T, s *e2e.Site) (slug string) {
	t.Helper()
	if s.Plan == nil {
		return s.Models()[0]
	}
	entries, err := s.Plan.Models()
	if err != nil {
		t.Fatal(err)
	}
	first := gjson.Result{}
	for _, entry := range entries {
		if e := gjson.ParseBytes(entry); e.Get("visibility").Str == "list" && (!first.Exists() || e.Get("priority").Int() < first.Get("priority").Int()) {
			first = e
		}
	}
	return first.Get("slug").Str
}

// TestUnknownModelNamesOthers checks that the error of a model that does not exist names the others.
func TestUnknownModelNamesOthers(t *testing.T) {
	s := e2e.NewSite(t, "model fast gpt-5 low")
	want := "The models here are: " + strings.Join(s.Models(), ", ") + "."
	for _, stream := range []string{"", `"stream":true,`} {
		body := strings.Replace(e2e.ChatBody("http:404", nil), `"model":"gpt-5"`, stream+`"model":"no-such"`, 1)
		if response, text := s.Post(body, nil); response.StatusCode != http.StatusNotFound || !strings.Contains(text, want) {
			t.Errorf("%d %s; want %q", response.StatusCode, text, want)
		}
	}
	if status, text := s.Get("/v1/models/no-such"); status != http.StatusNotFound || !strings.Contains(text, want) {
		t.Errorf("%d %s; want %q", status, text, want)
	}
}
