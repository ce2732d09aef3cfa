package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/responses"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/sse"
)

// storeTimeout bounds a look into the store of responses, which may be on
// another machine.
const storeTimeout = 10 * time.Second

// Responses serves POST /v1/responses.
func (g *Gateway) Responses(w http.ResponseWriter, r *http.Request) { g.serve(w, r, g.readResponse) }

// readResponse reads and checks a request for a response.
func (g *Gateway) readResponse(w http.ResponseWriter, r *http.Request) (*request, *openai.Error) {
	body, refusal := g.readBody(w, r)
	if refusal != nil {
		return nil, refusal
	}
	decoded, refusal := openai.DecodeResponse(body)
	if refusal != nil {
		return nil, refusal
	}
	req := &request{route: RouteResponses, choices: 1}
	req.prepare = func(ctx context.Context) *openai.Error { return g.prepareResponse(ctx, r, req, decoded) }
	return req, nil
}

// prepareResponse maps a request to what its turn needs.
func (g *Gateway) prepareResponse(ctx context.Context, r *http.Request, req *request, decoded *openai.ResponseRequest) (refusal *openai.Error) {
	if refusal = g.complete(ctx, r, decoded); refusal != nil {
		return refusal
	}
	suffix := strings.ToLower(rand.Text())
	form := g.newResponseWire(r, decoded, suffix) // keeps the images' URLs, not the images
	if refusal = g.fetchImages(ctx, decoded); refusal != nil {
		return refusal
	}
	if req.plan, refusal = decoded.Plan(g.planOptions()); refusal != nil {
		return refusal
	}
	if req.options, refusal = g.opts.Tools.turnOptions(r, decoded, req.plan); refusal != nil {
		return refusal
	}
	req.options.NoReasoning = g.opts.NoReasoning
	req.options.Items = true
	req.options.IDSuffix = suffix[:idSuffixLength]
	form.meta.CallsInText = req.options.Mode == turn.ModeXML
	req.wire = form
	if req.plan.Stream {
		req.begin = func(r *http.Request) (*http.Request, func()) {
			return g.running.begin(r, form.meta.ID, g.opts.User(r))
		}
	}
	return nil
}

// complete completes a request with what it refers to in the store.
func (g *Gateway) complete(ctx context.Context, r *http.Request, decoded *openai.ResponseRequest) *openai.Error {
	if g.opts.Responses == nil {
		decoded.DontStore()
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var earlier []json.RawMessage
	if previous := decoded.PreviousID(); previous != "" {
		var err error
		if earlier, err = g.chain(ctx, g.opts.User(r), previous); err != nil {
			return g.notFollowed(previous, err)
		}
	}
	var broken error
	refusal := decoded.Resolve(earlier, func(id string) (json.RawMessage, bool) {
		item, err := g.item(ctx, g.opts.User(r), id)
		if err != nil && !errors.Is(err, responses.ErrNotFound) {
			broken = err
		}
		return item, err == nil
	})
	if broken != nil {
		return openai.FromFailure(broken)
	}
	return refusal
}

// chain returns the items of a response and of those before it.
func (g *Gateway) chain(ctx context.Context, user, id string) ([]json.RawMessage, error) {
	if g.opts.Responses == nil {
		return nil, &responses.MissingError{ID: id}
	}
	return responses.Chain(ctx, g.opts.Responses, user, id, g.opts.MaxBody)
}

// notFollowed tells why a response cannot be followed.
func (g *Gateway) notFollowed(id string, err error) *openai.Error {
	if missing := (*responses.MissingError)(nil); errors.As(err, &missing) {
		return openai.PreviousNotFound(id, missing.ID)
	}
	if errors.Is(err, responses.ErrTooLong) {
		return openai.PreviousTooLong()
	}
	return openai.FromFailure(err)
}

// item finds an item by its id, which names its response.
func (g *Gateway) item(ctx context.Context, user, id string) (json.RawMessage, error) {
	response, ok := openai.ResponseOfItem(id)
	if !ok || g.opts.Responses == nil || !responses.ValidID(response) {
		return nil, responses.ErrNotFound
	}
	e, err := g.opts.Responses.Get(ctx, user, response)
	if err != nil {
		return nil, err
	}
	for _, items := range [][]json.RawMessage{e.Input, e.Output} {
		for _, item := range items {
			if openai.ItemID(item) == id {
				return item, nil
			}
		}
	}
	return nil, responses.ErrNotFound
}

// responseWire is the form of Responses.
type responseWire struct {
	meta openai.ResponseMeta
}

func (g *Gateway) newResponseWire(r *http.Request, decoded *openai.ResponseRequest, suffix string) *responseWire {
	meta := decoded.Meta(suffix)
	meta.Created = time.Now().Unix()
	meta.Now = func() int64 { return time.Now().Unix() }
	entry := &responses.Entry{User: g.opts.User(r), Previous: decoded.PreviousID()}
	if decoded.Stored() {
		entry.Input = decoded.InputItems(suffix)
	}
	meta.Keep = func(record openai.ResponseRecord) {
		g.running.ended(meta.ID, record.Response)
		if decoded.Stored() {
			entry.Response, entry.Output = record.Response, record.Output
			g.keep(r, meta.ID, entry)
		}
	}
	return &responseWire{meta}
}

// keep stores a response. Its client gets it in any case.
func (g *Gateway) keep(r *http.Request, id string, entry *responses.Entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), storeTimeout)
	defer cancel()
	if err := g.opts.Responses.Put(ctx, id, entry); err != nil {
		g.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "a response could not be kept",
			slog.String("request_id", r.Header.Get("X-Request-Id")),
			slog.String("response", id),
			slog.String("error", err.Error()))
	}
}

// Stream returns an encoder of events.
func (f *responseWire) Stream(w *sse.Writer) eventEncoder {
	return &responseEvents{openai.NewResponseStream(f.meta, w.WriteEvent), w}
}

// Whole returns an encoder of a Response object.
func (f *responseWire) Whole() bodyEncoder { return openai.NewResponseBody(f.meta) }

// Refusal is an error in OpenAI's shape.
func (f *responseWire) Refusal(failure error) *openai.Error {
	return openai.FromResponseFailure(failure)
}

// responseEvents are the events of a response in a stream.
type responseEvents struct {
	*openai.ResponseStream
	writer *sse.Writer
}

// Close writes the counts of the calls. There is no end mark: the last event is
// one.
func (e *responseEvents) Close(tools turn.Report) error { return writeCounts(e.writer, tools) }
