package messages

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// someModels are known to have windows of some tokens, or of 0.
type someModels []api.Model

func (s someModels) Names() (names []string) {
	for _, m := range s {
		names = append(names, m.Name)
	}
	return names
}

func (s someModels) Find(name string) (api.Model, bool) {
	if at := slices.Index(s.Names(), name); at >= 0 {
		return s[at], true
	}
	return api.Model{Name: name}, false
}

func (s someModels) Allows(name string) bool { return name != "claude-forbidden" }

// listing returns a request for a list of models.
func listing(query string) *http.Request {
	return httptest.NewRequest(http.MethodGet, "/v1/models?"+query, nil)
}

// TestModelsPages: the pages of the list of models.
func TestModelsPages(t *testing.T) {
	created := time.Unix(0, 0)
	models := someModels{{Name: "a", Modified: created}, {Name: "b", Modified: created, Window: 272_000}, {Name: "c", Modified: created}}
	one := func(id string) string {
		window := map[bool]string{true: "272000", false: "null"}[id == "b"]
		return `{"type":"model","id":"` + id + `","display_name":"` + id + `","created_at":"1970-01-01T00:00:00Z","max_input_tokens":` + window + `,"max_tokens":null,"capabilities":null}`
	}
	for query, want := range map[string]string{
		"":                    `{"data":[` + one("a") + `,` + one("b") + `,` + one("c") + `],"has_more":false,"first_id":"a","last_id":"c"}`,
		"limit=2":             `{"data":[` + one("a") + `,` + one("b") + `],"has_more":true,"first_id":"a","last_id":"b"}`,
		"after_id=b":          `{"data":[` + one("c") + `],"has_more":false,"first_id":"c","last_id":"c"}`,
		"after_id=c":          `{"data":[],"has_more":false,"first_id":null,"last_id":null}`,
		"before_id=c&limit=1": `{"data":[` + one("b") + `],"has_more":true,"first_id":"b","last_id":"b"}`,
		"before_id=a":         `{"data":[],"has_more":false,"first_id":null,"last_id":null}`,
	} {
		if got, apiErr := Models(models, listing(query)); apiErr != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\n%s", query, apiErr, got, want)
		}
	}
	for _, limit := range []string{"0", "1001", "x"} {
		if _, apiErr := Models(models, listing("limit="+limit)); apiErr == nil || apiErr.Param != "limit" {
			t.Errorf("%s: %+v", limit, apiErr)
		}
	}
	for _, param := range []string{"before_id", "after_id"} {
		if _, apiErr := Models(models, listing(param+"=d")); apiErr == nil || apiErr.Param != param {
			t.Errorf("%s of an unknown model: %+v", param, apiErr)
		}
	}
}

// TestModel checks that one of Anthropic's models has the window of the default model, for which it stands.
func TestModel(t *testing.T) {
	models := someModels{{Name: "gpt-x", Window: 500_000}, {Name: "claude-alias", Window: 100_000}, {Name: prompt.DefaultModel, Window: 272_000}}
	for id, window := range map[string]string{
		"gpt-x": "500000", "claude-alias": "100000", "claude-opus-5-5": "272000", "default": "272000", "gpt-y": "", "claude-forbidden": "",
	} {
		body, ok := API.Model(models, id)
		if ok != (window != "") || ok && !strings.Contains(string(body), `"id":"`+id+`","display_name":"`+id+`"`) || ok && !strings.Contains(string(body), `"max_input_tokens":`+window+`,`) {
			t.Errorf("%s: %t %s", id, ok, body)
		}
	}
}

// prefixedModels also find models by their names with the prefix, but those of aliases with such names.
type prefixedModels struct {
	someModels
	aliases []string
}

func (p prefixedModels) Find(name string) (api.Model, bool) {
	if slices.Contains(p.aliases, name) {
		return api.Model{Name: name}, true
	}
	return p.someModels.Find(strings.TrimPrefix(name, ModelPrefix))
}

// TestModelsForClaudeCode: the list has ids that Claude Code shows, with readable names, and no other clients see them.
func TestModelsForClaudeCode(t *testing.T) {
	models := prefixedModels{someModels{{Name: "gpt-5.5", Title: "GPT-5.5"}, {Name: "my-Claude"}, {Name: "taken"}, {Name: "default"}}, []string{"anthropic/taken"}}
	for client, want := range map[string]string{
		"claude-code/2.1.330":                "anthropic/gpt-5.5 GPT-5.5, my-Claude my-Claude, anthropic/default default",
		"claude-cli/2.1.330 (external, cli)": "gpt-5.5 GPT-5.5, my-Claude my-Claude, taken taken, default default",
		"Anthropic/JS 1.14.0":                "gpt-5.5 GPT-5.5, my-Claude my-Claude, taken taken, default default",
	} {
		r := listing("limit=1000")
		r.Header.Set("User-Agent", client)
		body, apiErr := Models(models, r)
		var list struct {
			Data []struct {
				ID          string
				DisplayName string `json:"display_name"`
			}
		}
		if err := json.Unmarshal(body, &list); err != nil || apiErr != nil {
			t.Fatal(err, apiErr)
		}
		var got []string
		for _, m := range list.Data {
			got = append(got, m.ID+" "+m.DisplayName)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s gets %q", client, got)
		}
	}
}
