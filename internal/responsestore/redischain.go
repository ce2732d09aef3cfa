package responsestore

import (
	"context"
	"encoding/json"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/stores"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Chain implements [stores.Chains]. It also stops at a response that is large or has an invalid item.
func (r *Redis) Chain(ctx context.Context, user, id string, links int, bytes int64) (found []stores.Link, next string, release func(), err error) {
	if !responseid.Valid(id) {
		return nil, id, func() {}, nil
	}
	answer, release, err := r.readBounded(ctx, chainScript, user, bytes, id, links, bytes)
	if err != nil {
		return nil, "", release, err
	}
	if len(answer) != 2 {
		return nil, "", release, errUnreadable
	}
	all, _ := answer[0].([]any)
	for _, f := range all {
		parts, _ := f.([]any)
		if len(parts) < 3 {
			return nil, "", release, errUnreadable
		}
		link := stores.Link{ID: asText(parts[0]), Conversation: asText(parts[1])}
		input, _ := parts[2].([]any)
		for _, piece := range input {
			link.Items = append(link.Items, splitItems([]byte(asText(piece)))...)
		}
		for _, item := range parts[3:] {
			if !wirejson.ValidWithin(maxDepth, wirejson.Value(asText(item))) {
				return found, link.ID, release, nil
			}
			link.Items = append(link.Items, json.RawMessage(asText(item)))
		}
		found = append(found, link)
	}
	return found, asText(answer[1]), release, nil
}
