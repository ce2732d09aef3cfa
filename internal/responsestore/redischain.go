package responsestore

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
	"github.com/caddy-codex/caddy-codex/stores"
)

// Chain implements [stores.Chains].
func (r *Redis) Chain(ctx context.Context, user, id string, links int, bytes int64) (found []stores.Link, next string, release func(), err error) {
	if !isValidID(id) {
		return nil, id, func() {}, nil
	}
	if responseid.ValidConversation(id) {
		return r.conversationLink(ctx, user, id, bytes)
	}
	answer, release, err := r.readBounded(ctx, chainScript, user, 0, bytes, id, links)
	for err == nil {
		parsed, next, hasNext, ok := parseLinks(answer)
		if found = append(found, parsed...); !ok {
			return nil, "", release, errUnreadable
		}
		if hasNext && len(parsed) == 0 { // a large response is read in pieces
			e, _, _, err := r.getEntry(ctx, user, next, "all", "", bytes, bytes)
			if errors.Is(err, stores.ErrNotFound) {
				return found, next, release, nil
			}
			if err != nil {
				return nil, "", release, err
			}
			found = append(found, stores.Link{ID: next, Conversation: e.Conversation, Items: slices.Collect(e.Items())})
			next = e.Previous
		}
		if !hasNext || next == "" {
			return found, next, release, nil
		}
		var nextAnswer any
		nextAnswer, err = r.run(ctx, chainScript, user, next, links-len(found), bytes)
		answer, _ = nextAnswer.([]any)
	}
	return nil, "", release, err
}

// parseLinks reads an answer of chainScript: some links (responses) of a chain, and the id of the
// next link. hasNext reports whether Redis has the next link. parseLinks stops at a link with an
// invalid item, as if that link did not exist. ok is false if the answer has an unexpected form.
func parseLinks(answer []any) (found []stores.Link, next string, hasNext, ok bool) {
	if len(answer) != 3 {
		return nil, "", false, false
	}
	all, _ := answer[0].([]any)
	for _, f := range all {
		parts, _ := f.([]any)
		if len(parts) < 3 {
			return nil, "", false, false
		}
		link := stores.Link{ID: asText(parts[0]), Conversation: asText(parts[1])}
		input, _ := parts[2].([]any)
		for _, piece := range input {
			link.Items = append(link.Items, splitItems([]byte(asText(piece)))...)
		}
		for _, item := range parts[3:] {
			if !wirejson.ValidWithin(maxDepth, wirejson.Value(asText(item))) {
				return found, link.ID, false, true
			}
			link.Items = append(link.Items, json.RawMessage(asText(item)))
		}
		found = append(found, link)
	}
	return found, asText(answer[1]), answer[2] == int64(1), true
}

// conversationLink returns a conversation as the only link of a chain. The error is
// stores.ErrTooLong if the conversation has more than the given bytes.
func (r *Redis) conversationLink(ctx context.Context, user, id string, bytes int64) (found []stores.Link, next string, release func(), err error) {
	e, err := r.getSettled(ctx, user, id, "all", "", bytes)
	if errors.Is(err, stores.ErrNotFound) {
		return nil, id, func() {}, nil
	}
	if err != nil {
		return nil, "", func() {}, err
	}
	return []stores.Link{{ID: id, Items: slices.Collect(e.Items())}}, e.Previous, e.Release, nil
}
