package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/responses"
	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// keptResponse is what the server keeps of a response. The methods of a nil *keptResponse keep nothing.
type keptResponse struct {
	g            *Gateway
	q            *responses.Request
	session      *socketSession // nil: the request came by POST
	user         string
	requestID    string
	meta         responses.Meta    // set by answer
	entry        *objects.Entry    // as it will be stored; Response and Output are set at the end
	earlierItems []json.RawMessage // the items before the input; nil: they are not kept in memory for the WebSocket
	itemsBefore  int64             // how many items the conversation had when it was read, if a summary of it may be written
	unstored     []string          // what could not be stored: "conversation", "response"
}

// newKept returns nil if the request is not one of the Responses API: then nothing is kept.
func (g *Gateway) newKept(ex *exchange, decoded api.Request) *keptResponse {
	made, ok := decoded.(interface{ ResponseRequest() *responses.Request })
	if !ok {
		return nil
	}
	q := made.ResponseRequest()
	return &keptResponse{
		g: g, q: q, session: ex.session, user: ex.user, requestID: requestID(ex.r),
		entry: &objects.Entry{User: ex.user, Previous: q.PreviousID, Conversation: q.ConversationID},
	}
}

// answer returns the encoder of the answer, which will call a.save at the end of the response.
func (a *keptResponse) answer(decoded api.Request, start api.Start, options *turn.Options) api.Answer {
	if a == nil {
		return decoded.Answer(start, options)
	}
	start.Keep = a.save
	answer := decoded.Answer(start, options)
	if response, ok := answer.(interface{ Meta() responses.Meta }); ok {
		a.meta = response.Meta()
	}
	return answer
}

// runningResponse returns the response as other requests see it before its end.
func (a *keptResponse) runningResponse() objects.Response {
	return objects.Response{ID: a.meta.ID, Entry: a.entry, Stored: a.q.Store, Size: a.meta.InProgressSize(), InProgress: a.meta.InProgress}
}

// forget drops the references to the body of the request. It is called when no turn needs the body any
// more. kept is how many bytes of the body stay in memory, because the answer repeats them at its end.
func (a *keptResponse) forget() (kept int64) {
	if a == nil {
		return 0
	}
	a.q.Forget()
	if a.entry.Input != nil {
		return math.MaxInt64 // all: the entry keeps the input until the end
	}
	return a.meta.InProgressSize() // the instructions and the tools, above all
}

// save is called when a response has just ended. If the response ended well, save adds it to its
// conversation. If q.Store is set, save stores the response. If q.Store is not set and the request came
// over a WebSocket, save keeps a response that ended well in memory, for the next request. If the store
// fails, the client still gets the response. save returns false if q.Store is set and the response is
// not stored.
func (a *keptResponse) save(record api.Record) bool {
	entry := *a.entry // a copy, since the goroutine that stores the events may read the old entry meanwhile
	entry.Response, entry.Output = record.Response, record.Output
	a.entry = &entry
	if id := a.q.ConversationID; id != "" && record.Well {
		a.changeStore("conversation", "a response could not be added to its conversation", func(ctx context.Context) error {
			return a.g.objects.AppendResponse(ctx, id, a.withoutStaleSummary(ctx, id))
		})
	}
	a.g.objects.Running.Ended(a.meta.ID, record.Response)
	if !a.q.Store {
		if a.session != nil && record.Well {
			a.remember()
		}
		return true
	}
	return a.changeStore("response", "a response could not be kept", a.put)
}

// withoutStaleSummary returns the entry for its conversation. If other requests have added to the conversation
// meanwhile, the entry has no summary: it would replace what it does not tell of.
func (a *keptResponse) withoutStaleSummary(ctx context.Context, conversation string) *objects.Entry {
	summary, _ := responses.LastSummary(a.entry.Output)
	if summary < 0 {
		return a.entry
	}
	if now, err := a.g.opts.Responses.CountItems(ctx, a.user, conversation); err == nil && now == a.itemsBefore {
		return a.entry
	}
	entry := *a.entry
	entry.Output = slices.Delete(slices.Clone(entry.Output), summary, summary+1)
	return &entry
}

// putRetryDelay is the pause before put tries again after the store was unavailable.
const putRetryDelay = 500 * time.Millisecond

// put stores the response, unless a client has deleted it. While the store is unavailable, put tries
// again until ctx ends if it is a background response: clients can read its end only from the store.
func (a *keptResponse) put(ctx context.Context) error {
	running := a.g.objects.Running
	for !running.IsDeleted(a.meta.ID) {
		err := a.g.opts.Responses.Put(ctx, a.meta.ID, a.entry)
		if err == nil {
			running.Kept(a.meta.ID)
			break
		}
		if !a.q.Background || !errors.Is(err, store.ErrUnavailable) {
			return err
		}
		select {
		case <-time.After(putRetryDelay):
		case <-ctx.Done():
			return err
		}
	}
	if !running.IsDeleted(a.meta.ID) {
		return nil
	}
	// A client has deleted the response, perhaps while put was storing it.
	if err := a.g.opts.Responses.Delete(ctx, a.user, a.meta.ID); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// changeStore calls change with a context that goes on if the client leaves. If change fails,
// changeStore logs the error with this message, adds what to a.unstored, and returns false.
func (a *keptResponse) changeStore(what, message string, change func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.Background(), objects.StoreTimeout)
	defer cancel()
	err := change(ctx)
	if err != nil {
		a.unstored = append(a.unstored, what)
		a.g.opts.Logger.LogAttrs(ctx, slog.LevelWarn, message,
			slog.String("request_id", a.requestID),
			slog.String("response", a.meta.ID),
			slog.String("error", err.Error()))
	}
	return err == nil
}

// notStored returns the value of notStoredHeader: what could not be stored. If all was stored, it is empty.
func (a *keptResponse) notStored() string {
	if a == nil {
		return ""
	}
	return strings.Join(a.unstored, ", ")
}

// remember keeps the response for the next request of its WebSocket, if there is enough memory. It drops
// the response that was kept before: clients do not continue from that response any more.
func (a *keptResponse) remember() {
	items := a.earlierItems
	for _, item := range a.entry.Items() {
		items = append(items, slices.Clone(item)) // item itself would keep the whole response in memory
	}
	// Nobody reads this Response: the next request needs the items only.
	e, s := &objects.Entry{User: a.user, Response: json.RawMessage("{}"), Input: items}, a.session
	s.lastID, s.entry = "", nil
	s.claim.Release()
	if s.claim.Grow(e.Size()) {
		s.lastID, s.entry = a.meta.ID, e
	}
}

// ServeSocket serves a WebSocket of a route. The caller has checked its origin. Each message is
// answered like a body that is posted to the route. For each message, ServeSocket calls count with a
// request made from the message, and a function that answers this request, which count must call.
func (g *Gateway) ServeSocket(rt *Route, w http.ResponseWriter, r *http.Request, count func(*http.Request, func(*http.Request))) {
	user := g.opts.User(r)
	s := &socketSession{claim: g.bodies.Claim(user)}
	defer s.claim.Release()
	apiErr := g.acceptSocket(w, r, user, func(w *socketWriter, r *http.Request) (usable bool) {
		var outcome requestOutcome
		count(r, func(r *http.Request) {
			ex := g.newExchange(w, r)
			defer ex.close()
			ex.events, ex.session = w, s
			g.record(ex)
			outcome = g.handle(ex, rt.API, rt.Socket)
			ex.endRecording(&outcome)
			g.report(r, outcome)
		})
		return !outcome.isCutOff()
	})
	if apiErr != nil {
		g.writeAnswer(w, r, claims.Bytes{}, apiErr)
	}
}

// CloseSockets is called when the gateway is replaced or no longer needed. It closes idle WebSockets
// immediately, and any other WebSocket after its current answer.
func (g *Gateway) CloseSockets() { g.closeSockets() }

// socketSession keeps the last response of a WebSocket for the next request, if it was not stored.
type socketSession struct {
	lastID string         // the id of that response; empty: there is none
	entry  *objects.Entry // that response; its Input has the items of the whole conversation so far
	claim  *claims.Claim  // of entry
}
