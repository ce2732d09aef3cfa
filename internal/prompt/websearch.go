package prompt

import (
	"cmp"
	"slices"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// WebSearch is how the model may search the web. The provider runs the searches.
type WebSearch struct {
	cached      bool // pages come from the provider's index only
	contextSize string
	domains     []string
	location    map[string]string
}

// webSearchTypes are the types of the tool, see [ReadWebSearch].
var webSearchTypes = []string{"web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"}

// IsWebSearch reports whether a tool of this type is a web search.
func IsWebSearch(kind string) bool { return slices.Contains(webSearchTypes, kind) }

var contextSizes = []string{"low", "medium", "high"}

// maxDomains is how many domains a search may be limited to, as with OpenAI.
const maxDomains = 100

// ReadWebSearch reads a WebSearchTool, a WebSearchPreviewTool or the web_search_options of
// chat completions.
func ReadWebSearch(v jsontext.Value) (*WebSearch, *field.Error) {
	s := new(WebSearch)
	var size, location, filters, external jsontext.Value
	v.Pick(jsontext.Into("search_context_size", &size), jsontext.Into("user_location", &location),
		jsontext.Into("filters", &filters), jsontext.Into("external_web_access", &external))
	s.cached = external.Given() && !external.IsTrue()
	return s, cmp.Or(
		field.OneOf(&s.contextSize, contextSizes, size).In("search_context_size"),
		s.readLocation(location).In("user_location"),
		s.readFilters(filters).In("filters"),
		field.Optional(jsontext.KindBool, external).In("external_web_access"))
}

// readLocation reads an approximate location: with its members beside the type, or, in chat
// completions, in an object of their own.
func (s *WebSearch) readLocation(v jsontext.Value) *field.Error {
	if !v.Given() {
		return nil
	}
	var inner jsontext.Value
	if f := field.Object(v, jsontext.Into("approximate", &inner)); f != nil {
		return f
	}
	if inner.Given() {
		return s.readLocation(inner).In("approximate")
	}
	s.location = make(map[string]string, 4)
	for name, v := range v.Members() {
		switch name := string(name); name {
		case "country", "region", "city", "timezone":
			var place string
			if f := field.Text(&place, v); f != nil {
				return f.In(name)
			}
			if v.Given() {
				s.location[name] = place
			}
		}
	}
	return nil
}

func (s *WebSearch) readFilters(v jsontext.Value) *field.Error {
	if !v.Given() {
		return nil
	}
	var domains jsontext.Value
	if f := field.Object(v, jsontext.Into("allowed_domains", &domains)); f != nil {
		return f
	}
	return field.Elements(domains, maxDomains, "domains", func(_ int, v jsontext.Value) *field.Error {
		if f := field.NonEmpty(v); f != nil {
			return f
		}
		s.domains = append(s.domains, v.Text())
		return nil
	}).In("allowed_domains")
}

func (c *Conversation) searches() bool {
	return c.Search != nil && !c.Choice.None && c.Choice.Only == nil
}

// configure adds the settings of a search.
func (s *WebSearch) configure(config map[string]any) {
	config["web_search"] = "live"
	if s.cached {
		config["web_search"] = "cached"
	}
	search := map[string]any{}
	if s.contextSize != "" {
		search["context_size"] = s.contextSize
	}
	if s.domains != nil {
		search["allowed_domains"] = s.domains
	}
	if s.location != nil {
		search["location"] = s.location
	}
	if len(search) > 0 {
		config["tools"] = map[string]any{userInput: codexrpc.Constant(disabled), "web_search": search}
	}
}
