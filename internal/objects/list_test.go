package objects

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestListRefuses checks the errors for a query of a list that cannot be answered.
func TestListRefuses(t *testing.T) {
	items := []json.RawMessage{json.RawMessage(`{"id":"msg_1"}`)}
	for query, param := range map[string]string{
		"limit=0": "limit", "limit=101": "limit", "limit=x": "limit", "order=up": "order", "after=nothing": "after",
		"limit=100&order=asc": "", "order=desc": "", "after=msg_1": "",
	} {
		values, err := url.ParseQuery(query)
		must.OK(t, err)
		p, apiErr := readPage(values)
		if apiErr == nil {
			_, listErr := itemList(items, p, free)
			errors.As(listErr, &apiErr)
		}
		if param == "" && apiErr != nil || param != "" && (apiErr == nil || apiErr.Param != param || apiErr.Status != http.StatusBadRequest) {
			t.Errorf("%s: %+v, want the param %q", query, apiErr, param)
		}
	}
}
