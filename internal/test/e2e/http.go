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

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// Bearer returns a header with a key.
func Bearer(key string) http.Header {
	return http.Header{"Authorization": {"Bearer " + key}}
}

// BobsHash is the bcrypt hash of the password "secret".
const BobsHash = "$2a$04$ZS0zAbndEt1Qsoxf8KouzOUXe9vUDfx73QTM240Aqqm0YqO4/qbMC"

// Get requests a path.
func (s *Site) Get(path string) (status int, body string) {
	s.T.Helper()
	response, body := s.Call(http.MethodGet, path, nil, nil)
	return response.StatusCode, body
}

// GetJSON requests a path, whose JSON it decodes.
func (s *Site) GetJSON(path string, into any) {
	s.T.Helper()
	status, text := s.Get(path)
	if err := json.Unmarshal([]byte(text), into); status != http.StatusOK || err != nil {
		s.T.Fatal(path, status, text, err)
	}
}

// Post sends a body to the chat route and returns the whole answer.
func (s *Site) Post(body string, header http.Header) (*http.Response, string) {
	s.T.Helper()
	return s.Call(http.MethodPost, "/v1/chat/completions", body, header)
}

// Served checks that the answer to a prompt is no error.
func (s *Site) Served(prompt string) {
	s.T.Helper()
	if response, text := s.Post(ChatBody(prompt, nil), nil); response.StatusCode != http.StatusOK {
		s.T.Errorf("%s: %s %s", prompt, response.Status, text)
	}
}

// Call sends a request and returns the whole answer. A body that is no text is sent as
// JSON, but for none, which is nil or no Fields.
func (s *Site) Call(method, path string, body any, header http.Header) (*http.Response, string) {
	s.T.Helper()
	text, isText := body.(string)
	if fields, ok := body.(Fields); !isText && body != nil && (!ok || fields != nil) {
		text = EncodeJSON(body)
	}
	response := s.Do(method, path, strings.NewReader(text), header)
	return response, s.Read(response)
}

// Do sends a request with this header, and fails if there is no answer.
func (s *Site) Do(method, path string, body io.Reader, header http.Header) *http.Response {
	s.T.Helper()
	response, err := s.send(Context(s.T), method, path, body, header)
	must.OK(s.T, err)
	return response
}

func (s *Site) send(ctx context.Context, method, path string, body io.Reader, header http.Header) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.URL+path, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(request.Header, header)
	return http.DefaultClient.Do(request)
}

// Chat sends a body to the chat route, until ctx ends. It can be called from any goroutine.
func (s *Site) Chat(ctx context.Context, body string, header http.Header) (*http.Response, error) {
	return s.send(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(body), header)
}

// Read reads the body of an answer and closes it.
func (s *Site) Read(response *http.Response) string {
	s.T.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must.OK(s.T, err)
	return string(body)
}

// ChatBody returns a request with one user message.
func ChatBody(prompt string, more map[string]any) string {
	request := map[string]any{
		"model":    "gpt-5",
		"messages": []any{map[string]any{"role": "user", "content": prompt}},
	}
	maps.Copy(request, more)
	return EncodeJSON(request)
}

// EncodeJSON returns a value as JSON, with a line end.
func EncodeJSON(v any) string {
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(v); err != nil {
		panic(err)
	}
	return buf.String()
}

// APIError is OpenAI's error object. Pointers distinguish null from a text.
type APIError struct {
	Error struct {
		Message *string `json:"message"`
		Type    *string `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

// BeginHanging begins a stream that says "Half" and then hangs until ctx ends.
func (s *Site) BeginHanging(ctx context.Context) {
	s.T.Helper()
	stream, err := s.Chat(ctx, ChatBody("say:Half; hang", map[string]any{"stream": true}), nil)
	must.OK(s.T, err)
	s.T.Cleanup(func() { _ = stream.Body.Close() })
	ReadUntil(s.T, stream.Body, "Half")
}

// PostUntil posts a body and reads until ctx ends. It ignores the answer.
func (s *Site) PostUntil(ctx context.Context, body string, header http.Header) {
	if response, err := s.Chat(ctx, body, header); err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
}

// StreamedContent joins the texts of a stream's chunks, whose sizes depend on the machine's load.
func StreamedContent(t *testing.T, stream string) string {
	t.Helper()
	answer, err := apiclient.Read([]byte(stream), apiclient.Chat, true, 1)
	must.OK(t, err)
	return answer.Choices[0].Text
}

// ReadUntil reads until a text was read.
func ReadUntil(t testing.TB, r io.Reader, text string) string {
	t.Helper()
	var got strings.Builder
	for buf := make([]byte, 256); !strings.Contains(got.String(), text); {
		n, err := r.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			t.Fatalf("%q, %v", got.String(), err)
		}
	}
	return got.String()
}
