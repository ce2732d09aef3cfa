package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/responses"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/sse"
	"github.com/caddy-codex/caddy-codex/stores"
)

// Responses serves POST /v1/responses.
func (g *Gateway) Responses(w http.ResponseWriter, r *http.Request) {
	g.serve(w, r, g.responsesCodec(responses.Decode, nil))
}

// responsesCodec returns the codec of requests for a response. s is the session of a
// WebSocket, or nil.
func (g *Gateway) responsesCodec(decode func([]byte) (*responses.Request, *apierror.Error), s *session) codec {
	return codec{route: RouteResponses, show: showOpenAILimit, decode: func(body []byte) (decodedRequest, *apierror.Error) {
		decoded, apiErr := decode(body)
		if apiErr != nil {
			return nil, apiErr
		}
		return &responsesRequest{Request: decoded, g: g, suffix: responseid.NewSuffix(time.Now()), session: s}, nil
	}}
}

// responsesRequest is a decoded request for a response.
type responsesRequest struct {
	*responses.Request
	g       *Gateway
	suffix  string            // of the ids of the response and its items
	input   []json.RawMessage // as it will be stored or remembered; nil: it will not be
	session *session          // nil: the request came by POST
	before  []json.RawMessage // the items before the input, if they are to be remembered
}

// Choices returns 1: a response has no further choices.
func (*responsesRequest) Choices() int { return 1 }

// form returns the form of the response.
func (q *responsesRequest) form(x *exchange, plan *prompt.Plan, options *turn.Options) form {
	options.Items, options.Encrypted = true, q.Encrypted
	options.IDSuffix = q.suffix[len(q.suffix)-idSuffixLength:]
	f := &responseForm{
		q: q, user: x.user, requestID: requestID(x.r),
		entry: &stores.Entry{User: x.user, Previous: q.PreviousID, Conversation: q.ConversationID, Input: q.input},
	}
	f.meta = q.Meta(q.suffix)
	f.meta.Created = time.Now().Unix()
	f.meta.Now = func() int64 { return time.Now().Unix() }
	f.meta.CallsInText = options.OutputMode == turn.ModeXML
	f.meta.Keep = f.keep
	return f
}

// responseForm is the form of a response.
type responseForm struct {
	q         *responsesRequest
	user      string
	requestID string
	meta      responses.Meta
	entry     *stores.Entry // as it will be stored; Response and Output are set at the end
}

func (f *responseForm) stream(w *sse.Writer, _ *conversation.Place) streamEncoder {
	return &responseStream{responses.NewStream(f.meta, w.WriteEvent), w}
}

func (f *responseForm) body(*conversation.Place) bodyEncoder { return responses.NewStream(f.meta, nil) }

func (f *responseForm) apiError(failure error) *apierror.Error { return f.q.APIError(failure) }

// track makes a response known to other requests if its client gets the id before the end.
func (f *responseForm) track(ctx context.Context) (context.Context, func()) {
	if !f.q.Stream && !f.q.Background {
		return ctx, func() {}
	}
	return f.q.g.objects.Running.Begin(ctx, f.underWay())
}

// underWay returns the response as other requests see it before its end.
func (f *responseForm) underWay() objects.Response {
	return objects.Response{ID: f.meta.ID, Entry: f.entry, Stored: f.q.Store, InProgress: f.meta.InProgress}
}

func (f *responseForm) warms() bool { return f.q.Warmup }

func (f *responseForm) forget() bool {
	f.q.Forget()
	return f.entry.Input == nil // otherwise the entry keeps the input until the end
}

// keep stores the response that has just ended. If storing fails, the client still gets the
// response.
func (f *responseForm) keep(record responses.Record) {
	f.entry.Response, f.entry.Output = record.Response, record.Output
	if id := f.q.ConversationID; id != "" && record.Well {
		f.write("a response could not be added to its conversation", func(ctx context.Context) error {
			return f.q.g.objects.AppendResponse(ctx, id, f.entry)
		})
	}
	f.q.g.objects.Running.Ended(f.meta.ID, record.Response)
	if !f.q.Store {
		if f.q.session != nil && record.Well {
			f.remember()
		}
		return
	}
	f.write("a response could not be kept", f.put)
}

// putPause is the pause before put tries again after the store was unavailable.
const putPause = 500 * time.Millisecond

// put stores the response. If the store is unavailable, put retries a background response until ctx
// ends: clients can get the end of such a response only from the store.
func (f *responseForm) put(ctx context.Context) error {
	for {
		err := f.q.g.opts.Responses.Put(ctx, f.meta.ID, f.entry)
		if err == nil {
			f.q.g.objects.Running.Kept(f.meta.ID)
		}
		if !f.q.Background || !errors.Is(err, stores.ErrUnavailable) {
			return err
		}
		select {
		case <-time.After(putPause):
		case <-ctx.Done():
			return err
		}
	}
}

// write calls the function write to change the store, even if the client has gone. An error is
// logged with the message failure.
func (f *responseForm) write(failure string, write func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), objects.StoreTimeout)
	defer cancel()
	if err := write(ctx); err != nil {
		f.q.g.opts.Logger.LogAttrs(ctx, slog.LevelWarn, failure,
			slog.String("request_id", f.requestID),
			slog.String("response", f.meta.ID),
			slog.String("error", err.Error()))
	}
}

// remember keeps the response for the next request of its WebSocket.
func (f *responseForm) remember() {
	items := f.q.before
	for item := range f.entry.Items() {
		items = append(items, slices.Clone(item)) // the item itself would keep the whole response in memory
	}
	f.q.session.remember(f.meta.ID, &stores.Entry{User: f.user, Response: json.RawMessage("{}"), Input: items})
}

// InputTokens serves POST /v1/responses/input_tokens. Counting occupies a slot for turns, since it
// can take as long as a turn.
func (g *Gateway) InputTokens(w http.ResponseWriter, r *http.Request) {
	g.visit(w, r, func(*visit) ([]byte, *apierror.Error) {
		x := g.newExchange(w, r)
		defer x.close()
		body, apiErr := g.countInput(x)
		return body, x.unlessExit(apiErr)
	})
}

// countInput counts the tokens of a request for a response.
func (g *Gateway) countInput(x *exchange) ([]byte, *apierror.Error) {
	got, decoded, apiErr := g.receive(x, g.responsesCodec(responses.Decode, nil))
	defer func() { closeGrants(got.grants) }()
	if apiErr == nil {
		apiErr = decoded.resolve(x, got.body)
	}
	if apiErr == nil {
		apiErr = g.countRequest(x, got, nil, 0)
	}
	if apiErr != nil {
		return nil, apiErr
	}
	count, apiErr := g.countTokens(x, got.body, decoded.(*responsesRequest).CountTokens)
	return responses.InputTokens(count), apiErr
}

// Compact answers POST /v1/responses/compact.
func (g *Gateway) Compact(w http.ResponseWriter, r *http.Request) {
	g.visit(w, r, func(*visit) ([]byte, *apierror.Error) { return nil, apierror.NoCompaction() })
}

// responseStream encodes an answer as the events of a response.
type responseStream struct {
	*responses.Stream
	writer *sse.Writer
}

// Holds returns true: the last event has the whole response.
func (*responseStream) Holds() bool { return true }

// Close writes the counts of the tool calls. It writes no end mark after the last event.
func (s *responseStream) Close(tools turn.Report) error { return writeCounts(s.writer, tools) }
