package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/responses"
)

// resolve adds the earlier responses that the request continues, and the items that the request refers
// to. Together they are at most as large as a body may be. Their memory is added to the claim body.
func (a *keptResponse) resolve(ex *exchange, body *claims.Claim) *apierror.Error {
	q, kept := a.q, a.g.opts.Responses
	if kept == nil {
		switch {
		case q.Background:
			return apierror.NoStore("background")
		case q.ConversationID != "":
			return apierror.NoStore("conversation")
		}
		q.Store = false
		if a.session == nil { // otherwise the request may continue the response that the session keeps
			if q.PreviousID != "" {
				return apierror.PreviousNotFound(q.PreviousID, q.PreviousID)
			}
			return q.Resolve(nil, nil)
		}
	}
	stored := objects.NewReader(kept, ex.user, a.g.opts.MaxBody, body.Grow)
	stored.Begin = func(items []json.RawMessage) int {
		i, sealed := responses.LastSummary(items)
		if i < 0 {
			return -1
		}
		opened, err := a.g.opts.Sealer.Open(ex.ctx, ex.user, sealed)
		if err != nil || !prompt.ReplacesAll(opened) {
			return -1
		}
		return i
	}
	if a.session != nil {
		stored.With(a.session.lastID, a.session.entry)
	}
	ctx, cancel := context.WithTimeout(ex.ctx, objects.StoreTimeout)
	defer cancel()
	var earlier []json.RawMessage
	if previousID := cmp.Or(q.PreviousID, q.ConversationID); previousID != "" {
		// PreviousID must have the form of a response's id, and ConversationID that of a conversation's id.
		if known := responseid.Valid(previousID) || responseid.ValidConversation(previousID); !known || responseid.Valid(previousID) != (q.PreviousID != "") {
			return a.readError(ex, previousID, &objects.MissingError{ID: previousID})
		}
		var err error
		if q.ConversationID != "" && (q.Shortening.Summary || q.Shortening.Above > 0) {
			if a.itemsBefore, err = kept.CountItems(ctx, ex.user, previousID); err != nil {
				a.itemsBefore = -1 // Chain says why
			}
		}
		if earlier, err = stored.Chain(ctx, previousID); err != nil {
			return a.readError(ex, previousID, err)
		}
	}
	referenced, err := stored.Items(ctx, q.References())
	if err != nil {
		return a.readError(ex, "", err)
	}
	apiErr := q.Resolve(earlier, referenced)
	remembered := a.session != nil && !q.Store
	if apiErr == nil && (q.Store || q.ConversationID != "" || remembered) {
		a.entry.Input = q.InputItems(q.Suffix) // images are fetched later: stored items keep the URLs
	}
	if remembered {
		a.earlierItems = earlier
	}
	return apiErr
}

// readError converts an error from the store to an error of the API. id is the response or conversation
// that could not be read. If id is empty, an item that the input refers to could not be read.
func (a *keptResponse) readError(ex *exchange, id string, err error) *apierror.Error {
	missing, isMissing := errors.AsType[*objects.MissingError](err)
	isTooLong, inConversation := errors.Is(err, objects.ErrTooLong), a.q.ConversationID != ""
	switch {
	case isMissing && id == "":
		return a.q.ItemNotFound(missing.ID)
	case isMissing && inConversation:
		return apierror.ConversationNotFound(id)
	case isMissing:
		return apierror.PreviousNotFound(id, missing.ID)
	case isTooLong && id == "":
		return apierror.ReferencesTooLong()
	case isTooLong && inConversation:
		return apierror.ConversationTooLong()
	case isTooLong:
		return apierror.PreviousTooLong()
	case errors.Is(err, objects.ErrInConversation):
		return apierror.InConversation(id)
	case errors.Is(err, objects.ErrNoMemory):
		return apierror.BodyMemory()
	}
	return a.g.objects.Failed(ex.ctx, ex.r, err)
}
