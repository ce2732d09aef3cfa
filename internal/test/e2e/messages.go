package e2e

import (
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/test/messagecheck"
)

// AnthropicVersion is a header of Anthropic's clients.
const AnthropicVersion = "2023-06-01"

// MessageBody returns a request of Anthropic's API with one message of the user's.
func MessageBody(prompt string, more Fields) Fields {
	body := Fields{"model": "claude-opus-5-5", "max_tokens": 1000, "messages": []any{UserMessage(prompt)}}
	for name, value := range more {
		body[name] = value
	}
	return body
}

// UserMessage returns a message of the user's.
func UserMessage(content any) Fields { return Fields{"role": "user", "content": content} }

// PostMessage sends a body to the route of messages, and returns the whole answer.
func (s *Site) PostMessage(body Fields, header http.Header) (*http.Response, string) {
	s.T.Helper()
	return s.Call(http.MethodPost, "/v1/messages?beta=true", body, header)
}

// Message sends a body to the route of messages, and reads the answer strictly.
func (s *Site) Message(body Fields) *messagecheck.Message {
	s.T.Helper()
	response, text := s.PostMessage(body, nil)
	if response.StatusCode != http.StatusOK || response.Header.Get("Request-Id") == "" {
		s.T.Fatal(response.Status, response.Header, text)
	}
	if body["stream"] != true {
		m, err := messagecheck.Whole([]byte(text))
		if err != nil {
			s.T.Fatalf("%v: %s", err, text)
		}
		return m
	}
	r, err := messagecheck.Stream(text)
	if err != nil || r.Failure != nil {
		s.T.Fatalf("%v: %s", err, text)
	}
	return r.Message
}
