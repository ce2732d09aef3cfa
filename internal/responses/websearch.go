package responses

import (
	"encoding/json"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// itemWebSearch is the type of the calls of a web search, which the provider runs.
const itemWebSearch = "web_search_call"

// searchAt is the place of a web search in the tools of the request and of its Response.
type searchAt struct{ tool, echo int }

// readSearch reads a tool if that is a web search, and reports whether it is.
func (r *Request) readSearch(v jsontext.Value, at int) (bool, *field.Error) {
	if v.Kind() != jsontext.KindObject {
		return false, nil
	}
	var kind jsontext.Value
	v.Pick(jsontext.Into("type", &kind))
	if kind.Kind() != jsontext.KindString || !prompt.IsWebSearch(kind.Text()) {
		return false, nil
	}
	if r.Search != nil {
		return true, field.Invalid("there is a web search already").In("type")
	}
	search, f := prompt.ReadWebSearch(v)
	if f != nil {
		return true, f
	}
	r.Search, r.search = search, searchAt{at, len(r.echo.Tools)}
	r.echo.Tools = append(r.echo.Tools, v)
	return true, nil
}

// WithoutSearch takes the web search from a request, since the operator does not allow it.
// It is an error unless the client is a Codex, see skipHosted.
func (r *Request) WithoutSearch() *apierror.Error {
	if r.Search == nil {
		return nil
	}
	if !r.codex {
		f := field.Unsupported("is a web search, which is off on this server; its operator can allow it with the option web_search")
		return f.In("type").At(r.search.tool).In("tools").APIError()
	}
	r.Ignore((&field.Error{}).At(r.search.tool).In("tools").Path)
	r.Search, r.echo.Tools = nil, slices.Delete(r.echo.Tools, r.search.echo, r.search.echo+1)
	return nil
}

// searchAction returns the action of a web search. Codex has more types than OpenAI.
func searchAction(text string) json.RawMessage {
	var action struct{ Type string }
	if json.Unmarshal([]byte(text), &action) == nil {
		switch action.Type {
		case "search", "open_page", "find_in_page":
			return json.RawMessage(text)
		}
	}
	return json.RawMessage(`{"type":"search"}`)
}
