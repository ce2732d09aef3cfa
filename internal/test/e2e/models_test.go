package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestEveryModel checks for each model that it gets the client's tool and no other, and
// that the client gets its call.
func TestEveryModel(t *testing.T) {
	s := newSite(t, "")
	models := slices.DeleteFunc(s.models(), func(id string) bool { return id == "default" })
	if len(models) < 2 {
		t.Fatalf("there are no models to choose from: %q", models)
	}
	for _, model := range models {
		t.Run(model, func(t *testing.T) {
			bothWays(t, s.at(t), func(t *testing.T, ask func(openai.ChatCompletionNewParams) (answer, error)) {
				s.at(t).checkModel(model, ask)
			})
		})
	}
}

// models returns the models that GET /v1/models lists.
func (s *site) models() []string {
	s.t.Helper()
	status, body := s.get("/v1/models")
	var list struct {
		Data []struct{ ID string }
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil || status != http.StatusOK {
		s.t.Fatal(status, body, err)
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	return ids
}

// TestDefaultModel checks that `default` is the model of Codex's configuration, or else
// the default of Codex's list, that it is listed, and that an alias of the name goes first.
func TestDefaultModel(t *testing.T) {
	s := newSite(t, "")
	ask := func(want string) {
		t.Helper()
		response, text := s.post(strings.Replace(chatBody("say:Hello", nil), "gpt-5", "default", 1), nil)
		if response.StatusCode != http.StatusOK || !strings.Contains(text, `"model":"default"`) {
			t.Fatal(response.StatusCode, text)
		}
		if request, _ := s.model.Last(); request.Model != want {
			t.Errorf("%q was asked, want %q", request.Model, want)
		}
	}
	ask("gpt-5") // of the home of the tests
	listed := s.models()
	if listed[len(listed)-1] != "default" {
		t.Errorf("it is not listed: %q", listed)
	}
	if status, text := s.get("/v1/models/default"); status != http.StatusOK {
		t.Error(status, text)
	}
	config := filepath.Join(s.home, "config.toml")
	if err := os.WriteFile(config, []byte(strings.Replace(readFile(t, config), "model = \"gpt-5\"\n", "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.load(s.caddyfile("app_server {\ncommand " + codexBinary + " app-server\nhome " + s.home + "\nenv A B\n}")) // another process
	s.waitReady()
	ask(listed[0]) // which Codex has as its default
	s.load(s.caddyfile("model default gpt-5.5 low\nmodel fast default low"))
	s.waitReady()
	ask("gpt-5.5")
	response, text := s.post(strings.Replace(chatBody("say:Hello", nil), "gpt-5", "fast", 1), nil)
	if request, _ := s.model.Last(); response.StatusCode != http.StatusOK || request.Model != listed[0] {
		t.Errorf("an alias of it: %d %s; %q was asked", response.StatusCode, text, request.Model)
	}
}

// TestUnknownModelNamesOthers checks that the error of a model that does not exist names the others.
func TestUnknownModelNamesOthers(t *testing.T) {
	s := newSite(t, "model fast gpt-5 low")
	want := "The models here are: " + strings.Join(s.models(), ", ") + "."
	for _, stream := range []string{"", `"stream":true,`} {
		body := strings.Replace(chatBody("http:404", nil), `"model":"gpt-5"`, stream+`"model":"no-such"`, 1)
		if response, text := s.post(body, nil); response.StatusCode != http.StatusNotFound || !strings.Contains(text, want) {
			t.Errorf("%d %s; want %q", response.StatusCode, text, want)
		}
	}
	if status, text := s.get("/v1/models/no-such"); status != http.StatusNotFound || !strings.Contains(text, want) {
		t.Errorf("%d %s; want %q", status, text, want)
	}
}

// checkModel requests a call from a model, and checks the request to the model.
func (s *site) checkModel(model string, ask func(openai.ChatCompletionNewParams) (answer, error)) {
	s.t.Helper()
	const arguments = `{"query": "of  <this> model" }`
	params := userSays("tool:localSearch " + arguments)
	params.Model = model
	params.Tools = []openai.ChatCompletionToolUnionParam{searchTool("localSearch")}
	got, err := ask(params)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(got.calls) != 1 || got.finish != "tool_calls" || got.content != "" {
		s.t.Fatalf("got %+v; want a call", got)
	}
	if call := got.calls[0].Function; call.Name != "localSearch" || call.Arguments != arguments {
		s.t.Errorf("the call is %s(%s)", call.Name, call.Arguments)
	}
	request, _ := s.model.Last()
	if request.Model != model {
		s.t.Errorf("%q was asked", request.Model)
	}
	if offered := everyTool(s.t, request); !slices.Equal(offered, []string{"localSearch"}) {
		s.t.Errorf("the model is offered %q", offered)
	}
}

// offer is a tool or a namespace of tools in a request.
type offer struct {
	Type, Name string
	Tools      []offer
}

// everyTool returns the names of all tools of a request. Newer models get them in an
// input item.
func everyTool(t testing.TB, request scriptedmodel.Request) []string {
	t.Helper()
	var body struct {
		Tools []offer
		Input []offer
	}
	if err := json.Unmarshal(request.Body, &body); err != nil {
		t.Fatal(err)
	}
	names := toolNames(body.Tools)
	for _, item := range body.Input {
		if item.Type == "additional_tools" {
			names = append(names, toolNames(item.Tools)...)
		}
	}
	return names
}

func toolNames(tools []offer) []string {
	var names []string
	for _, t := range tools {
		switch {
		case t.Type == "namespace":
			names = append(names, toolNames(t.Tools)...)
		case t.Name == "": // a tool of the provider, such as web_search
			names = append(names, t.Type)
		default:
			names = append(names, t.Name)
		}
	}
	return names
}
