package gateway

import (
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/test/echoapi"
)

const (
	chatPath      = "/v1/chat/completions"
	responsesPath = "/v1/responses"
)

// ServeHTTP serves a request to the route at its path.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rt, segments := Find(r.URL.Path), strings.Split(r.URL.Path, "/")
	var args []string
	for _, other := range Routes() {
		if fits, _ := path.Match(other.Path, r.URL.Path); fits && rt == nil {
			rt = other
			for i, name := range strings.Split(other.Path, "/") {
				if name == "*" {
					args = append(args, segments[i])
				}
			}
		}
	}
	g.Serve(rt, w, r, args...)
}

func posting(path, body string) *http.Request {
	return httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
}

// answerTo returns the answer to a request.
func answerTo(g *Gateway, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

func post(g *Gateway, path, body string) *httptest.ResponseRecorder {
	return answerTo(g, posting(path, body))
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
	for body, want := range map[string]string{
		"m\nHi": "Hello there", "stream m\nHi": "data: Hello", "": "model",
	} {
		w := post(g, "/echo", body)
		if !strings.Contains(w.Body.String(), want) || w.Code != http.StatusOK && body != "" || w.Code != http.StatusBadRequest && body == "" {
			t.Errorf("%q: %d %q", body, w.Code, w.Body)
		}
	}
	if w := post(g, "/echo/models", ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "gpt") {
		t.Errorf("models: %d %q", w.Code, w.Body)
	}
	if held := g.Held(); held != (Held{}) {
		t.Errorf("%+v is left", held)
	}
}
