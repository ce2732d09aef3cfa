package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// CatalogueModel returns a model in Codex's own catalogue.
func (s *Site) CatalogueModel(t *testing.T) string {
	t.Helper()
	for _, model := range s.Models() {
		if strings.HasPrefix(model, "gpt-6") {
			return model
		}
	}
	t.Fatalf("no model of the catalogue among %q", s.Models())
	return ""
}

// Models returns the models that GET /v1/models lists.
func (s *Site) Models() []string {
	s.T.Helper()
	status, body := s.Get("/v1/models")
	var list struct {
		Data []struct{ ID string }
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil || status != http.StatusOK {
		s.T.Fatal(status, body, err)
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	return ids
}

// CheckModel requests a call from a model, and checks the request to the model.
func (s *Site) CheckModel(model string, ask func(openai.ChatCompletionNewParams) (Answer, error)) {
	s.T.Helper()
	const arguments = `{"query": "of  <this> model" }`
	params := UserSays("tool:localSearch " + arguments)
	params.Model = model
	params.Tools = []openai.ChatCompletionToolUnionParam{SearchTool("localSearch")}
	got, err := ask(params)
	must.OK(s.T, err)
	if len(got.Calls) != 1 || got.Finish != "tool_calls" || got.Content != "" {
		s.T.Fatalf("got %+v; want a call", got)
	}
	if call := got.Calls[0].Function; call.Name != "localSearch" || call.Arguments != arguments {
		s.T.Errorf("the call is %s(%s)", call.Name, call.Arguments)
	}
	request, _ := s.Model.Last()
	if request.Model != model {
		s.T.Errorf("%q was asked", request.Model)
	}
	if offered := EveryTool(request); !slices.Equal(offered, []string{"localSearch"}) {
		s.T.Errorf("the model is offered %q", offered)
	}
}

// EveryTool returns the names of all tools of a request. Newer models get them in an input item.
func EveryTool(request scriptedmodel.Request) []string {
	names := toolNames(request.Tools)
	for _, item := range request.Input {
		if item.Type == "additional_tools" {
			names = append(names, toolNames(item.Tools)...)
		}
	}
	return names
}

func toolNames(tools []scriptedmodel.Tool) []string {
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

// Tool returns the declaration of a tool.
func Tool(name string) map[string]any {
	return map[string]any{"type": "function", "function": map[string]any{
		"name":       name,
		"parameters": map[string]any{"type": "object", "properties": map[string]any{"query": map[string]any{"type": "string"}}},
	}}
}
