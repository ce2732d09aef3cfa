package objects

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// page is the part of a list that a client wants.
type page struct {
	limit     int
	ascending bool   // the oldest item comes first; false: the newest
	after     string // the page begins after the item with this id; empty: with the first item
}

// How many items a page has by default, and at most.
const (
	defaultLimit = 20
	maxLimit     = 100
)

func readPage(query url.Values) (page, *apierror.Error) {
	p := page{limit: defaultLimit, after: query.Get("after")}
	if limit := query.Get("limit"); limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > maxLimit {
			return p, field.Invalid("must be a number from 1 to %d", maxLimit).In("limit").APIError()
		}
		p.limit = n
	}
	order := cmp.Or(query.Get("order"), "desc")
	if p.ascending = order == "asc"; !p.ascending && order != "desc" {
		return p, field.Invalid("must be asc or desc").In("order").APIError()
	}
	return p, nil
}

// Hold claims memory for an answer, before the answer is built. bytes is the size of the answer.
// The error means that there is too little memory.
type Hold func(bytes int64) *apierror.Error

// itemList returns the body of GET /v1/responses/{id}/input_items (ResponseItemList), which has one
// page of items. The argument items has the items of all pages, the oldest first.
func itemList(items []json.RawMessage, p page, hold Hold) ([]byte, error) {
	if !p.ascending {
		items = slices.Clone(items)
		slices.Reverse(items)
	}
	if p.after != "" {
		at := slices.IndexFunc(items, func(item json.RawMessage) bool { return ItemID(item) == p.after })
		if at < 0 {
			return nil, field.NotFound("there is no item %.128q in this list", p.after).In("after").APIError()
		}
		items = items[at+1:]
	}
	n := min(len(items), p.limit)
	var ends struct {
		FirstID *string `json:"first_id"`
		LastID  *string `json:"last_id"`
		HasMore bool    `json:"has_more"`
	}
	if ends.HasMore = n < len(items); n > 0 {
		ends.FirstID, ends.LastID = wirejson.OrNull(ItemID(items[0])), wirejson.OrNull(ItemID(items[n-1]))
	}
	const begin = `{"object":"list","data":[`
	end := wirejson.Append(nil, ends)
	end[0] = ','
	size := len(begin) + n + 1 + len(end)
	for _, item := range items[:n] {
		size += len(item)
	}
	if apiErr := hold(int64(size)); apiErr != nil {
		return nil, apiErr
	}
	body := append(make([]byte, 0, size), begin...) // the items may be large, so each is copied only once
	for i, item := range items[:n] {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, item...)
	}
	return append(append(body, ']'), end...), nil
}

// ItemID returns the id of a stored item, or "".
func ItemID(item json.RawMessage) string {
	var id wirejson.Value
	wirejson.Value(item).Pick(wirejson.Into("id", &id))
	text, _ := id.AsText()
	return text
}

// deleted returns the body of the answer to a DELETE. object is "response" or "conversation.deleted".
func deleted(id, object string) []byte {
	return wirejson.Append(nil, struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{id, object, true})
}
