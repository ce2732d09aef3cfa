package responses

import (
	"encoding/json"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// typeWebSearch is the type of the items for web searches. The provider runs them, not the client.
const typeWebSearch = "web_search_call"

func (r *Request) readWebSearch(v wirejson.Value) (f *field.Error) {
	if r.searchTool != nil {
		return field.Invalid("there is such a tool already").In("type")
	}
	r.searchTool = v
	r.echoed.Tools = append(r.echoed.Tools, v)
	r.Search, f = prompt.ReadWebSearch(v)
	return f
}

// WithoutSearch is called if the operator allows no web searches. It fails if the request has the tool for
// web searches. But if the client is Codex, which works without this tool, it removes the tool instead.
func (r *Request) WithoutSearch() *apierror.Error {
	if r.searchTool == nil {
		return nil
	}
	path := field.PathOf(r.Body, r.searchTool)
	if !r.isCodex {
		return field.Unsupported("is a web search, which is off on this server; its operator can allow it with the option web_search").In("type").In(path).APIError()
	}
	r.Search = nil
	r.Ignore(path)
	r.echoed.Tools = slices.DeleteFunc(r.echoed.Tools, r.searchTool.IsSame)
	return nil
}

// searchAction returns the action of a web search. text is the action as Codex reported it, or empty. If
// OpenAI's API has no action of this type, the result is the action search without other members.
func searchAction(text string) json.RawMessage {
	action, _ := wirejson.Parse([]byte(text)) // nil, without members, if it is no JSON
	var kind wirejson.Value
	if action.Pick(wirejson.Into("type", &kind)); slices.ContainsFunc([]string{"search", "open_page", "find_in_page"}, kind.Is) {
		return json.RawMessage(action)
	}
	return json.RawMessage(`{"type":"search"}`)
}
