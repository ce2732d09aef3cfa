package caddymodule

import (
	"regexp"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/ollama"
)

var (
	// ollamaRoutes maps the paths of Ollama's API to their routes, as [routes] does for the other APIs.
	ollamaRoutes       = withRoutes(make(map[string]route), func(a *api.API) bool { return a == &ollama.API })
	ollamaUnknownRoute = func() route {
		rt := unknownRoute
		rt.errors = ollama.API.Errors
		return rt
	}()
)

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
	if h.isOn(ollama.API.Option) {
		if found, ok := ollamaRouteOf(path); ok {
			return found, true
		}
	}
	found, ok := apiRouteOf(path)
	if !h.isOn(found.option) {
		found = unknownRoute
	}
	return found, ok
}

// isOn reports whether an option of an API is on.
func (h *Handler) isOn(option string) bool {
	switch option {
	case "":
		return true
	case "images":
		return h.Images
	case "ollama":
		return h.Ollama
	}
	return false
}
