package chat

import (
	"encoding/json"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

func (r *Request) readSearchOptions(v jsontext.Value) *field.Error {
	r.Search = nil
	f := field.Optional(jsontext.KindObject, v)
	if f == nil && v.Given() {
		r.Search, f = prompt.ReadWebSearch(v)
	}
	return f
}

// WithoutSearch ignores the web search, since the operator does not allow it.
func (r *Request) WithoutSearch() *apierror.Error {
	if r.Search != nil {
		r.Search = nil
		r.Ignore("web_search_options")
	}
	return nil
}

// annotation is one of the annotations of a message.
type annotation struct {
	Type     string   `json:"type"`
	Citation citation `json:"url_citation"`
}

// citation is a place in the text that cites a web page. Its indexes count characters.
type citation struct {
	End   int    `json:"end_index"`
	Start int    `json:"start_index"`
	URL   string `json:"url"`
	Title string `json:"title"`
}

// annotations returns the citations in the annotations of a message, which begins at
// out.Part in the text of the choice.
func annotations(out *turn.Output) (all []annotation) {
	var given []struct {
		Type  string
		Start int `json:"start_index"`
		End   int `json:"end_index"`
		URL   string
		Title string
	}
	_ = json.Unmarshal([]byte(out.Text), &given) // keeps what it can read
	for _, g := range given {
		if g.Type == "url_citation" {
			all = append(all, annotation{g.Type, citation{out.Part + g.End, out.Part + g.Start, g.URL, g.Title}})
		}
	}
	return all
}
