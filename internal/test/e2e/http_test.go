package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// get requests a path.
func (s *site) get(path string) (status int, body string) {
	s.t.Helper()
	response := s.do(http.MethodGet, path, nil, nil)
	return response.StatusCode, s.read(response)
}

// post sends a body to the chat route and returns the whole answer.
func (s *site) post(body string, header http.Header) (*http.Response, string) {
	s.t.Helper()
	response := s.do(http.MethodPost, "/v1/chat/completions", strings.NewReader(body), header)
	return response, s.read(response)
}

func (s *site) do(method, path string, body io.Reader, header http.Header) *http.Response {
	s.t.Helper()
	request, err := http.NewRequestWithContext(testContext(s.t), method, s.url+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	return response
}

func (s *site) read(response *http.Response) string {
	s.t.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(body)
}

// chatBody returns a request with one user message.
func chatBody(prompt string, more map[string]any) string {
	request := map[string]any{
		"model":    "gpt-5",
		"messages": []any{map[string]any{"role": "user", "content": prompt}},
	}
	for key, value := range more {
		request[key] = value
	}
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(request); err != nil {
		panic(err)
	}
	return buf.String()
}

// apiError is OpenAI's error object. Pointers distinguish null from a text.
type apiError struct {
	Error struct {
		Message *string `json:"message"`
		Type    *string `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

// contextFor returns a context that the test cancels.
func contextFor(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(testContext(t), deadline)
}

// beginHanging begins a stream that says "Half" and then hangs until ctx ends.
func (s *site) beginHanging(ctx context.Context) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(chatBody("say:Half; hang", map[string]any{"stream": true})))
	if err != nil {
		s.t.Fatal(err)
	}
	stream, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = stream.Body.Close() })
	readUntil(s.t, stream.Body, "Half")
}

// postUntil posts a body and reads until ctx ends. It ignores the answer.
func (s *site) postUntil(ctx context.Context, body string, header http.Header) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return
	}
	maps.Copy(request.Header, header)
	if response, err := http.DefaultClient.Do(request); err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
}

// streamedContent returns the content of the chunks of a stream, put together: how the
// model's text is cut into chunks depends on how busy the machine is.
func streamedContent(t *testing.T, stream string) string {
	t.Helper()
	var content strings.Builder
	for line := range strings.Lines(stream) {
		data, found := strings.CutPrefix(line, "data: {")
		if !found {
			continue
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte("{"+data), &chunk); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for _, c := range chunk.Choices {
			content.WriteString(c.Delta.Content)
		}
	}
	return content.String()
}
