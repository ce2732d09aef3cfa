package messages

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// modelInfo is Anthropic's ModelInfo. MaxTokens, the most tokens of an answer, is always null, since Codex does
// not know it. With the window in its place, clients would reserve all of it for the answer.
type modelInfo struct {
	Type         string `json:"type"` // always model
	ID           string `json:"id"`
	DisplayName  string `json:"display_name"`
	CreatedAt    string `json:"created_at"`
	MaxInput     *int   `json:"max_input_tokens"` // the context window; null: not known
	MaxTokens    *int   `json:"max_tokens"`
	Capabilities *int   `json:"capabilities"`
}

func newModelInfo(id string, m *api.Model) modelInfo {
	created := m.Modified.UTC().Format(time.RFC3339)
	return modelInfo{Type: "model", ID: id, DisplayName: cmp.Or(m.Title, m.Name), CreatedAt: created, MaxInput: wirejson.OrNull(m.Window)}
}

// ModelPrefix may precede the name of a model in a request. Claude Code gets such names, see ids.
const ModelPrefix = "anthropic/"

// ids returns the ids of the models in the list that a client gets. Claude Code shows only ids with "claude" or
// "anthropic", so the others get a prefix for it, unless the operator has an alias for the longer name.
func ids(models api.Models, r *http.Request) []string {
	names := models.Names()
	if !strings.HasPrefix(r.UserAgent(), "claude-code/") {
		return names
	}
	var shown []string
	for _, name := range names {
		if lower := strings.ToLower(name); strings.Contains(lower, "claude") || strings.Contains(lower, "anthropic") {
			shown = append(shown, name)
		} else if m, _ := models.Find(ModelPrefix + name); m.Name == name {
			shown = append(shown, ModelPrefix+name)
		}
	}
	return shown
}

// How many models a page has by default, and at most.
const (
	defaultPage = 20
	maxPage     = 1000
)

// Models returns the body of GET /v1/models with a page of the models. In the query, limit is the size of
// the page. The page ends before the model before_id or, without before_id, begins after after_id.
func Models(models api.Models, r *http.Request) ([]byte, *apierror.Error) {
	names, query, limit := ids(models, r), r.URL.Query(), defaultPage
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			return nil, apierror.InvalidRequest("limit", "limit: must be an integer from 1 to "+strconv.Itoa(maxPage)+".")
		}
		limit = n
	}
	for _, param := range []string{"before_id", "after_id"} {
		if id := query.Get(param); id != "" && !slices.Contains(names, id) {
			return nil, apierror.InvalidRequest(param, param+": must be the id of a model in the list.")
		}
	}
	page, more := names, false
	if id := query.Get("before_id"); id != "" {
		at := slices.Index(names, id)
		from := max(0, at-limit)
		page, more = names[from:at], from > 0
	} else {
		from := slices.Index(names, query.Get("after_id")) + 1
		to := min(len(names), from+limit)
		page, more = names[from:to], to < len(names)
	}
	all := struct {
		Data    []modelInfo `json:"data"`
		HasMore bool        `json:"has_more"`
		FirstID *string     `json:"first_id"`
		LastID  *string     `json:"last_id"`
	}{Data: []modelInfo{}, HasMore: more}
	for i, id := range page {
		m, _ := models.Find(id)
		all.Data = append(all.Data, newModelInfo(id, &m))
		all.FirstID, all.LastID = &page[0], &page[i]
	}
	return wirejson.Append(nil, all), nil
}
