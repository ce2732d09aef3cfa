package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/test/echoapi"
)

// The methods below serve the routes that the tests of this package use.

func (g *Gateway) Chat(w http.ResponseWriter, r *http.Request) {
	g.Serve(Find("/v1/chat/completions"), w, r)
}
func (g *Gateway) Responses(w http.ResponseWriter, r *http.Request) {
	g.Serve(Find("/v1/responses"), w, r)
}
func (g *Gateway) InputTokens(w http.ResponseWriter, r *http.Request) {
	g.Serve(Find("/v1/responses/input_tokens"), w, r)
}
func (g *Gateway) Messages(w http.ResponseWriter, r *http.Request) {
	g.Serve(Find("/v1/messages"), w, r)
}
func (g *Gateway) OllamaChat(w http.ResponseWriter, r *http.Request) {
	g.Serve(Find("/api/chat"), w, r)
}
func (g *Gateway) OllamaShow(w http.ResponseWriter, r *http.Request) {
	g.Serve(Find("/api/show"), w, r)
}
func (g *Gateway) OllamaPull(w http.ResponseWriter, r *http.Request) {
	g.Serve(Find("/api/pull"), w, r)
}
func (g *Gateway) GeneratePictures(w http.ResponseWriter, r *http.Request) {
	g.Serve(Find("/v1/images/generations"), w, r)
}
func (g *Gateway) Response(w http.ResponseWriter, r *http.Request, id string) {
	g.Serve(Find("/v1/responses/*"), w, r, id)
}
func (g *Gateway) InputItems(w http.ResponseWriter, r *http.Request, id string) {
	g.Serve(Find("/v1/responses/*/input_items"), w, r, id)
}
func (g *Gateway) CancelResponse(w http.ResponseWriter, r *http.Request, id string) {
	g.Serve(Find("/v1/responses/*/cancel"), w, r, id)
}
func (g *Gateway) ConversationItems(w http.ResponseWriter, r *http.Request, id string) {
	g.Serve(Find("/v1/conversations/*/items"), w, r, id)
}
func (g *Gateway) CreateConversation(w http.ResponseWriter, r *http.Request) {
	g.Serve(Find("/v1/conversations"), w, r)
}
func (g *Gateway) ConversationItem(w http.ResponseWriter, r *http.Request, id, item string) {
	g.Serve(Find("/v1/conversations/*/items/*"), w, r, id, item)
}

func (g *Gateway) acceptAt(path string, ex *exchange) (*request, *apierror.Error) {
	rt := Find(path)
	return g.accept(ex, rt.API, rt.Turn)
}

// TestAddedAPI: an API needs its package and a line, and gets streams, bodies, errors and models.
func TestAddedAPI(t *testing.T) {
	APIs = append(APIs, &echoapi.API)
	defer func() { APIs = APIs[:len(APIs)-1] }()
	g := newGateway(calling(t, textPart("Hello"), textPart(" there")), Options{MaxConcurrent: 2})
	ask := func(path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		g.Serve(Find(path), w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
		return w
	}
	for body, want := range map[string]string{
		"m\nHi": "Hello there", "stream m\nHi": "data: Hello", "": "model",
	} {
		w := ask("/echo", body)
		if !strings.Contains(w.Body.String(), want) || w.Code != http.StatusOK && body != "" || w.Code != http.StatusBadRequest && body == "" {
			t.Errorf("%q: %d %q", body, w.Code, w.Body)
		}
	}
	if w := ask("/echo/models", ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "gpt") {
		t.Errorf("models: %d %q", w.Code, w.Body)
	}
	if held := g.Held(); held != (Held{}) {
		t.Errorf("%+v is left", held)
	}
}
