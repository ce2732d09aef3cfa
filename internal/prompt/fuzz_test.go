package prompt_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/plancheck"
)

// FuzzPlan sends any body. What is refused must be refused in OpenAI's shape;
// what is accepted must give a plan that Codex can read.
func FuzzPlan(f *testing.F) {
	for _, body := range []string{
		withFields(`"stream":true,"stream_options":{"include_usage":true}`),
		withTool(`{"name":"exec","parameters":{"type":"object"}}`, `,"tool_choice":"required"`),
		withMessages(`{"role":"system","content":"s"},{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"mcp__f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"r"}]}`),
		withMessages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + pngURL + `","detail":"low"}}]},{"role":"user","content":"\ud83d"}`),
		withRemoteImages,
		withFields(`"n":8,"stop":["a","b"],"max_tokens":7,"functions":[{"name":"mcp","parameters":{}}],"function_call":{"name":"mcp"}`),
		withMessages(`{"role":"assistant","content":"x","refusal":"y","function_call":{"name":"f","arguments":""}},{"role":"function","name":"f","content":[]}`),
		withFields(`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{ "a": [1] }}}`),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		given := string(body)
		r, apiErr := chat.Decode(body)
		if string(body) != given {
			t.Fatal("the body was changed")
		}
		if apiErr != nil {
			if apiErr.Status != http.StatusBadRequest || apiErr.Type != apierror.TypeInvalidRequest || apiErr.Message == "" || !json.Valid(apiErr.Body()) {
				t.Fatalf("refused by %+v", apiErr)
			}
			return
		}
		if r.Model == "" {
			t.Fatal("a request without a model was accepted")
		}
		p, apiErr := r.Plan(prompt.Options{})
		if remote := r.RemoteImages(); len(remote) > 0 {
			if apiErr == nil || apiErr.Status != http.StatusBadRequest || apiErr.Param == "" {
				t.Fatalf("remote images %q, refused by %+v", remote, apiErr)
			}
			fetched := map[string]string{}
			for _, url := range remote {
				fetched[url] = pngURL
			}
			r.SetImages(fetched)
			p, apiErr = r.Plan(prompt.Options{})
		}
		if apiErr != nil {
			t.Fatalf("no plan: %v", apiErr)
		}
		plancheck.Check(t, p)
	})
}
