package caddymodule

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/ollama"
)

var (
	ollamaCounts = countsOf("ollama")

	// ollamaRoutes maps the paths of Ollama's API to their routes, as [routes] does for OpenAI's
	// API.
	ollamaRoutes = map[string]route{
		"/":            {counts: ollamaCounts, onlyFailures: true, methods: readMethods, errorFormat: ollamaErrors, noAPIKey: true, serve: fromGateway((*gateway.Gateway).OllamaReady)},
		"/api/version": ollamaRoute(readMethods, gateway.OllamaDocument(ollama.VersionBody, nil)).withoutAPIKey(),
		"/api/tags":    ollamaRoute(readMethods, (*gateway.Gateway).OllamaTags),
		"/api/ps":      ollamaRoute(readMethods, gateway.OllamaDocument(ollama.NoneLoaded, nil)),

		"/api/chat":     ollamaRoute(writeMethods, (*gateway.Gateway).OllamaChat),
		"/api/generate": ollamaRoute(writeMethods, (*gateway.Gateway).OllamaGenerate),
		"/api/show":     ollamaRoute(writeMethods, (*gateway.Gateway).OllamaShow),
		"/api/pull":     ollamaRoute(writeMethods, (*gateway.Gateway).OllamaPull),

		"/api/embed":      ollamaRefusal(writeMethods, ollama.NoEmbeddings),
		"/api/embeddings": ollamaRefusal(writeMethods, ollama.NoEmbeddings),
		"/api/create":     ollamaRefusal(writeMethods, ollama.Unchangeable),
		"/api/copy":       ollamaRefusal(writeMethods, ollama.Unchangeable),
		"/api/push":       ollamaRefusal(writeMethods, ollama.Unchangeable),
		"/api/delete":     ollamaRefusal([]string{http.MethodDelete}, ollama.Unchangeable),
		"/api/blobs/*":    ollamaRefusal([]string{http.MethodPost, http.MethodHead}, ollama.Unchangeable),
	}
	ollamaUnknownRoute = func() route {
		rt := unknownRoute
		rt.errorFormat = ollamaErrors
		return rt
	}()
)

func ollamaRoute(methods []string, serve func(*gateway.Gateway, http.ResponseWriter, *http.Request)) route {
	return route{counts: ollamaCounts, methods: methods, errorFormat: ollamaErrors, serve: fromGateway(serve)}
}

// withoutAPIKey returns a copy of the route that needs no API key.
func (rt route) withoutAPIKey() route {
	rt.noAPIKey = true
	return rt
}

// ollamaRefusal returns a route that answers each request with an error. The route does not read
// the request's body.
func ollamaRefusal(methods []string, refusal func() *apierror.Error) route {
	rt := ollamaRoute(methods, gateway.OllamaDocument(nil, refusal))
	rt.noBody = true
	return rt
}

// ollamaPrefix matches the beginning of a path of Ollama's API, even if a client with a wrong base
// URL repeats /v1 or /api in it.
var ollamaPrefix = regexp.MustCompile(`^(/v1|/api)*/api/`)

// ollamaRouteOf returns the route of a path of Ollama's API. For an unknown path below /api/, it
// returns ollamaUnknownRoute, unless the path is a path of OpenAI's or Anthropic's API, perhaps a
// misspelt one. In all other cases it returns false.
func ollamaRouteOf(path string) (route, bool) {
	clean := withoutSlashes(path)
	if prefix := ollamaPrefix.FindString(clean); prefix != "" {
		clean = "/api/" + clean[len(prefix):]
	}
	for pattern, found := range ollamaRoutes {
		if _, ok := match(pattern, clean); ok {
			return found, true
		}
	}
	if !strings.HasPrefix(path, "/api/") {
		return route{}, false
	}
	if _, isAPIPath := exactRouteOf(path); isAPIPath {
		return route{}, false
	}
	_, isMisspelt := misspeltRouteOf(path)
	return ollamaUnknownRoute, !isMisspelt
}

// routeOf returns the route of a path, and false if the path belongs to none of the handler's APIs.
func (h *Handler) routeOf(path string) (route, bool) {
	if h.Ollama {
		if found, ok := ollamaRouteOf(path); ok {
			return found, true
		}
	}
	found, ok := apiRouteOf(path)
	if found.images && !h.Images {
		found = unknownRoute
	}
	return found, ok
}
