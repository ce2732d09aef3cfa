package prompt

import (
	"cmp"
	"slices"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// WebSearch has the settings for web searches of the model. The provider runs these searches.
type WebSearch struct {
	cachedOnly bool           // the provider uses only pages in its index; false: it may also read other pages
	settings   map[string]any // Codex's settings of the tool web_search
}

// webSearchTypes are the types of tools that [ReadWebSearch] reads.
var webSearchTypes = []string{"web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"}

// IsWebSearch reports whether kind, the type of a tool, is a type of web search.
func IsWebSearch(kind string) bool { return slices.Contains(webSearchTypes, kind) }

// maxDomains is how many domains the list of allowed domains may have, as in OpenAI's API.
const maxDomains = 100

// ReadWebSearch reads a WebSearchTool, WebSearchPreviewTool or web_search_options of chat completions.
func ReadWebSearch(v wirejson.Value) (*WebSearch, *field.Error) {
	s := &WebSearch{settings: map[string]any{}}
	var contextSize string
	var size, location, filters, external wirejson.Value
	v.Pick(wirejson.Into("search_context_size", &size), wirejson.Into("user_location", &location),
		wirejson.Into("filters", &filters), wirejson.Into("external_web_access", &external))
	s.cachedOnly = external.Given() && !external.IsTrue()
	f := cmp.Or(
		field.OneOf(&contextSize, []string{"low", "medium", "high"}, size).In("search_context_size"),
		s.readLocation(location).In("user_location"),
		s.readFilters(filters).In("filters"),
		field.Optional(wirejson.KindBool, external).In("external_web_access"))
	if contextSize != "" {
		s.settings["context_size"] = contextSize
	}
	return s, f
}

// readLocation reads an approximate location: v or, for chat completions, its object approximate.
func (s *WebSearch) readLocation(v wirejson.Value) *field.Error {
	if f := field.Optional(wirejson.KindObject, v); f != nil || !v.Given() {
		return f
	}
	var inner wirejson.Value
	v.Pick(wirejson.Into("approximate", &inner))
	if inner.Given() {
		return s.readLocation(inner).In("approximate")
	}
	location := make(map[string]string, 4)
	s.settings["location"] = location
	for name, v := range v.Members() {
		switch name := string(name); name {
		case "country", "region", "city", "timezone":
			var value string
			if f := field.Text(&value, v); f != nil {
				return f.In(name)
			}
			if v.Given() {
				location[name] = value
			}
		}
	}
	return nil
}

func (s *WebSearch) readFilters(v wirejson.Value) *field.Error {
	var allowed wirejson.Value
	v.Pick(wirejson.Into("allowed_domains", &allowed))
	return cmp.Or(field.Optional(wirejson.KindObject, v), s.ReadDomains(allowed).In("allowed_domains"))
}

// ReadDomains reads the list of the domains that searches may use. Without a list, all may be used.
func (s *WebSearch) ReadDomains(v wirejson.Value) *field.Error {
	var domains []string
	f := field.Elements(v, maxDomains, "domains", func(_ int, v wirejson.Value) *field.Error {
		f := field.NonEmpty(v)
		if f == nil {
			domains = append(domains, v.Text())
		}
		return f
	})
	if domains != nil {
		s.settings["allowed_domains"] = domains
	}
	return f
}

func (c *Conversation) maySearch() bool {
	return c.Search != nil && !c.Choice.None && c.Choice.Only == nil
}

// WithoutSearch is called if the operator does not allow web searches. It does nothing, since
// requests of most APIs cannot ask for them. The requests of other APIs have their own method
// WithoutSearch, which removes the search, or fails if the client needs it.
func (*Conversation) WithoutSearch() *apierror.Error { return nil }

func (s *WebSearch) configure(config map[string]any) {
	config["web_search"] = "live"
	if s.cachedOnly {
		config["web_search"] = "cached"
	}
	if len(s.settings) > 0 {
		config["tools"] = map[string]any{userInputTool: codexrpc.Constant(disabledSetting), "web_search": s.settings}
	}
}
