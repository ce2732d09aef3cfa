package messages

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/messagecheck"
)

// tool is a function as Anthropic's clients declare it.
func tool(name string) e2e.Fields {
	return e2e.Fields{"name": name, "description": "Does " + name, "input_schema": e2e.Fields{"type": "object", "properties": e2e.Fields{"q": e2e.Fields{"type": "string"}}}}
}

// texts returns the texts of a message, a line for each block of another type.
func texts(m *messagecheck.Message) string {
	var all []string
	for _, b := range m.Content {
		if b.Type == "text" {
			all = append(all, b.Text)
		} else {
			all = append(all, "<"+b.Type+" "+b.Name+b.Thinking+">")
		}
	}
	return strings.Join(all, "\n")
}

// TestMessages: an answer with every kind of block, streamed and whole, over both transports.
func TestMessages(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		e2e.EachWay(t, s, func(t *testing.T, s *e2e.Site, stream bool) {
			m := s.Message(e2e.MessageBody("reason:Hm.; say:Let me look.; tool:2 f {\"q\":\"%d\"}", e2e.Fields{
				"stream": stream, "tools": []any{tool("f")}, "thinking": e2e.Fields{"type": "adaptive"},
			}))
			if got := texts(m); got != "<thinking Hm.>\nLet me look.\n<tool_use f>\n<tool_use f>" || m.StopReason != "tool_use" || m.Content[0].Signature == "" {
				t.Errorf("%s, %+v", got, m)
			}
			u := m.Usage
			if *u.Input+*u.CacheRead+*u.CacheWrite != 123 || *u.CacheRead != 23 || *u.Output != 45 {
				t.Errorf("the usage %d %d %d %d", *u.Input, *u.CacheWrite, *u.CacheRead, *u.Output)
			}
			if m := s.Message(e2e.MessageBody("Hi", e2e.Fields{"stream": stream, "max_tokens": 1})); m.StopReason != "max_tokens" {
				t.Errorf("%+v", m)
			}
			if m := s.Message(e2e.MessageBody("say:one END two", e2e.Fields{"stream": stream, "stop_sequences": []string{"END"}})); texts(m) != "one " || m.StopReason != "stop_sequence" || *m.StopSequence != "END" {
				t.Errorf("%+v", m)
			}
			if m := s.Message(e2e.MessageBody("say:no; incomplete:content_filter", e2e.Fields{"stream": stream})); m.StopReason != "refusal" {
				t.Errorf("%+v", m)
			}
		})
	})
}

// TestModels: the list for Anthropic's clients.
func TestModels(t *testing.T) {
	s := e2e.NewSite(t, "model claude-haiku* default low")
	version := http.Header{"Anthropic-Version": {e2e.AnthropicVersion}}
	response := s.Do(http.MethodGet, "/v1/models?limit=1", nil, version)
	if text := s.Read(response); !strings.Contains(text, `{"data":[{"type":"model","id":"`) || !strings.Contains(text, `"has_more":true`) {
		t.Error(text)
	}
	response = s.Do(http.MethodGet, "/v1/models/claude-opus-5-5", nil, version)
	if text := s.Read(response); !strings.Contains(text, `{"type":"model","id":"claude-opus-5-5"`) {
		t.Error(text)
	}
	response = s.Do(http.MethodGet, "/v1/models/x", nil, version)
	if text := s.Read(response); response.StatusCode != http.StatusNotFound || !strings.Contains(text, `{"type":"error","error":{"type":"not_found_error"`) || !strings.Contains(text, response.Header.Get("Request-Id")) {
		t.Error(text)
	}
	m := s.Message(e2e.MessageBody("say:a", e2e.Fields{"model": "claude-haiku-5-5"}))
	if request, _ := s.Model.Last(); m.Model != "claude-haiku-5-5" || !strings.Contains(string(request.Body), `"effort":"low"`) {
		t.Errorf("%+v", m)
	}
}

// TestCount: an estimate of the tokens, without a turn.
func TestCount(t *testing.T) {
	s := e2e.NewSite(t, "")
	body := e2e.MessageBody(strings.Repeat("one two three ", 1000), nil)
	delete(body, "max_tokens")
	response := s.Do(http.MethodPost, "/v1/messages/count_tokens?beta=true", strings.NewReader(e2e.EncodeJSON(body)), nil)
	if text := s.Read(response); response.StatusCode != http.StatusOK || !strings.HasPrefix(text, `{"input_tokens":30`) {
		t.Error(response.Status, text)
	}
	if _, asked := s.Model.Last(); asked {
		t.Error("the model was asked")
	}
}

// TestErrors: errors before and within a stream, in Anthropic's form.
func TestErrors(t *testing.T) {
	s := e2e.NewSite(t, "api_key secret")
	for name, c := range map[string]struct {
		prompt, key string
		status      int
		want, retry string
	}{
		"no key":      {"say:a", "", 401, `"type":"authentication_error"`, "false"},
		"too long":    {"fail:context_length_exceeded", "secret", 400, `"message":"prompt is too long: `, ""},
		"overloaded":  {"http:503 1", "secret", 529, `"type":"overloaded_error"`, ""},
		"spent":       {"limit:3600 plus", "secret", 429, `"type":"rate_limit_error"`, "false"},
		"rate limit":  {"fail:rate_limit_exceeded", "secret", 429, `"type":"rate_limit_error"`, ""},
		"the request": {"http:400", "secret", 400, `"type":"invalid_request_error"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.At(t)
			response, text := s.PostMessage(e2e.MessageBody(c.prompt, e2e.Fields{"stream": true}), http.Header{"X-Api-Key": {c.key}})
			// With a login Codex tries some requests for longer than the header of a stream waits.
			within := s.Plan != nil && response.StatusCode == http.StatusOK
			if !strings.Contains(text, c.want) || !within && (response.StatusCode != c.status || response.Header.Get("X-Should-Retry") != c.retry || !strings.Contains(text, response.Header.Get("Request-Id"))) {
				t.Error(response.Status, response.Header, text)
			}
		})
	}
	_, text := s.PostMessage(e2e.MessageBody("say:a long text; cutoff", e2e.Fields{"stream": true}), e2e.Bearer("secret"))
	if r, err := messagecheck.Stream(text); err != nil || r.Failure == nil || r.Failure.Error.Type != "api_error" {
		t.Errorf("%v %s", err, text)
	}
}
