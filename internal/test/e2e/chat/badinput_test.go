package chat

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestBadInput checks that an invalid request is refused with OpenAI's error object and
// the field, and does not reach the model.
func TestBadInput(t *testing.T) {
	s := e2e.NewSite(t, "max_body 64KiB")
	hi := `"messages":[{"role":"user","content":"hi"}]`
	for name, c := range map[string]struct {
		body   string
		status int
		param  string
	}{
		"not JSON":                   {`{"model": "gpt-5",`, 400, ""},
		"not an object":              {`[]`, 400, ""},
		"empty":                      {``, 400, ""},
		"no model":                   {`{` + hi + `}`, 400, "model"},
		"model of a wrong type":      {`{"model":5,` + hi + `}`, 400, "model"},
		"no messages":                {`{"model":"gpt-5"}`, 400, "messages"},
		"empty messages":             {`{"model":"gpt-5","messages":[]}`, 400, "messages"},
		"messages of a wrong type":   {`{"model":"gpt-5","messages":"hi"}`, 400, "messages"},
		"unknown role":               {`{"model":"gpt-5","messages":[{"role":"robot","content":"hi"}]}`, 400, "messages[0].role"},
		"content of a wrong type":    {`{"model":"gpt-5","messages":[{"role":"user","content":5}]}`, 400, "messages[0].content"},
		"result without a call":      {`{"model":"gpt-5","messages":[{"role":"tool","tool_call_id":"x","content":"r"}]}`, 400, "messages[0]"},
		"remote image":               {`{"model":"gpt-5","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}`, 400, "messages[0].content[0].image_url"},
		"tool name with a space":     {`{"model":"gpt-5",` + hi + `,"tools":[{"type":"function","function":{"name":"a b"}}]}`, 400, "tools[0].function.name"},
		"tool without a name":        {`{"model":"gpt-5",` + hi + `,"tools":[{"type":"function","function":{}}]}`, 400, "tools[0].function.name"},
		"tool_choice of nobody":      {`{"model":"gpt-5",` + hi + `,"tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":{"type":"function","function":{"name":"b"}}}`, 400, "tool_choice"},
		"stream of a wrong type":     {`{"model":"gpt-5",` + hi + `,"stream":"yes"}`, 400, "stream"},
		"too many choices":           {`{"model":"gpt-5",` + hi + `,"n":9}`, 400, "n"},
		"logprobs":                   {`{"model":"gpt-5",` + hi + `,"logprobs":true}`, 400, "logprobs"},
		"neither messages nor input": {`{"model":"gpt-5","inputs":"hi"}`, 400, "messages"},
		"a body over the limit":      {`{"model":"gpt-5","messages":[{"role":"user","content":"` + strings.Repeat("x", 70_000) + `"}]}`, 413, ""},
	} {
		t.Run(name, func(t *testing.T) {
			response, text := s.At(t).Post(c.body, nil)
			if response.StatusCode != c.status {
				t.Fatalf("%s %s", response.Status, text)
			}
			e2e.CheckEnvelope(t, response, text, c.param)
		})
	}
	if n := s.Model.Stats().Requests; n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

func TestRoutes(t *testing.T) {
	s := e2e.NewSite(t, "")
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/v1/nothing", 404},
		{"GET", "/v1/chat/completions", 405},
		{"DELETE", "/v1/models", 405},
		{"GET", "/v1/models", 200},
		{"GET", "/v1/models/no-such-model", 404},
		{"GET", "/healthz", 200},
		{"GET", "/readyz", 200},
	} {
		response := s.Do(c.method, c.path, nil, nil)
		text := s.Read(response)
		if response.StatusCode != c.status {
			t.Errorf("%s %s: %s %s", c.method, c.path, response.Status, text)
		}
		if c.status >= 400 {
			e2e.CheckEnvelope(t, response, text, map[bool]string{true: "model"}[strings.Contains(c.path, "no-such")])
		}
		if c.status == 405 && response.Header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.path)
		}
	}
}

// TestUnknownModel checks that names of models reach the provider unchanged, and that
// its refusal is a model_not_found.
func TestUnknownModel(t *testing.T) {
	s := e2e.NewSite(t, "")
	response, text := s.Post(strings.Replace(e2e.ChatBody("http:404", nil), "gpt-5", "no-such/model", 1), nil)
	if response.StatusCode != http.StatusNotFound || !strings.Contains(text, `"code":"model_not_found"`) {
		t.Error(response.Status, text)
	}
	if request, _ := s.Model.Last(); request.Model != "no-such/model" {
		t.Errorf("the model was asked as %q", request.Model)
	}
}

func TestModels(t *testing.T) {
	s := e2e.NewSite(t, "")
	client := s.Client()
	page, err := client.Models.List(e2e.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Data) == 0 {
		t.Fatal("no models")
	}
	for _, m := range page.Data {
		one, err := client.Models.Get(e2e.Context(t), m.ID)
		if err != nil || one.ID != m.ID || m.Object != "model" {
			t.Errorf("%+v, %v", m, err)
		}
	}
}
