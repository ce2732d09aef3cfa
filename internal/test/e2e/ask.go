package e2e

import (
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// AllAPIs are the APIs that answer with what a model says. Ollama's is off by default.
var AllAPIs = []apiclient.API{apiclient.Chat, apiclient.Responses, apiclient.Messages, apiclient.Ollama}

// AskModel asks a model by an API and reads the answer, which must have a valid form.
func (s *Site) AskModel(api apiclient.API, model, prompt string, stream bool) (*http.Response, *apiclient.Answer) {
	s.T.Helper()
	body := Fields{"model": model, "stream": stream}
	switch api {
	case apiclient.Responses:
		body["input"] = prompt
	case apiclient.Messages:
		body["max_tokens"] = 1000
		fallthrough
	default:
		body["messages"] = []any{UserMessage(prompt)}
	}
	response, text := s.Call(http.MethodPost, api.String(), body, nil)
	var answer *apiclient.Answer
	var err error
	if response.StatusCode == http.StatusOK {
		answer, err = apiclient.Read([]byte(text), api, stream, 1)
	} else {
		answer, err = apiclient.ReadError([]byte(text), api)
	}
	if err != nil || response.StatusCode == http.StatusOK && !answer.Ended {
		s.T.Fatalf("%s with %s: %s %s %v", api, model, response.Status, text, err)
	}
	return response, answer
}
