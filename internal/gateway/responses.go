package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/budget"
	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/sse"
)

// storeTimeout bounds a look into the store of responses, which may be on
// another machine.
const storeTimeout = 10 * time.Second

// Responses serves POST /v1/responses.
func (g *Gateway) Responses(w http.ResponseWriter, r *http.Request) { g.serve(w, r, g.readResponse) }

// readResponse reads and checks a request for a response.
func (g *Gateway) readResponse(w http.ResponseWriter, r *http.Request, memory *budget.Claim) (*request, *openai.Error) {
	body, refusal := g.readBody(w, r, memory)
	if refusal != nil {
		return nil, refusal
	}
	decoded, refusal := openai.DecodeResponse(body)
	if refusal != nil {
		return nil, refusal
	}
	req := &request{route: RouteResponses, choices: 1}
	req.prepare = func(ctx context.Context) *openai.Error { return g.prepareResponse(ctx, r, req, decoded, memory) }
	return req, nil
}

// prepareResponse maps a request to what its turn needs.
func (g *Gateway) prepareResponse(ctx context.Context, r *http.Request, req *request, decoded *openai.ResponseRequest, memory *budget.Claim) (refusal *openai.Error) {
	if refusal = g.complete(ctx, r, decoded, memory); refusal != nil {
		return refusal
	}
	suffix := responsestore.NewSuffix(time.Now())
	form := g.newResponseWire(r, decoded, suffix) // keeps the images' URLs, not the images
	if refusal = g.plan(ctx, r, req, decoded, memory.Size()); refusal != nil {
		return refusal
	}
	req.options.Items = true
	req.options.IDSuffix = suffix[len(suffix)-idSuffixLength:]
	form.meta.CallsInText = req.options.OutputMode == turn.ModeXML
	req.wire = form
	req.forget = func() bool {
		decoded.Forget()
		return !decoded.Stored() // its input is kept to the end
	}
	if req.plan.Stream {
		req.begin = func(r *http.Request) (*http.Request, func()) { return g.running.begin(r, form) }
	}
	return nil
}

// complete completes a request with what it refers to in the store. That is
// together no more than a body may be, and its memory counts as a body's.
func (g *Gateway) complete(ctx context.Context, r *http.Request, decoded *openai.ResponseRequest, memory *budget.Claim) *openai.Error {
	if g.opts.Responses == nil {
		decoded.DontStore()
		return g.completeWithout(decoded)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	kept := responsestore.NewReader(g.opts.Responses, g.opts.User(r), g.opts.MaxBody, memory.Grow)
	var earlier []json.RawMessage
	if previous := decoded.PreviousID(); previous != "" {
		var err error
		if earlier, err = kept.Chain(ctx, previous); err != nil {
			return g.notFollowed(r, previous, err)
		}
	}
	found, refusal := g.references(ctx, r, kept, decoded)
	if refusal != nil {
		return refusal
	}
	return decoded.Resolve(earlier, found)
}

// references reads the items that the input refers to.
func (g *Gateway) references(ctx context.Context, r *http.Request, kept *responsestore.Reader, decoded *openai.ResponseRequest) (map[string]json.RawMessage, *openai.Error) {
	ids := decoded.References()
	named := make([]responsestore.Reference, len(ids))
	for i, id := range ids {
		response, ok := openai.ResponseOfItem(id)
		if !ok || !responsestore.ValidID(response) {
			return nil, decoded.ItemNotFound(id)
		}
		named[i] = responsestore.Reference{Response: response, Item: id}
	}
	found, err := kept.Items(ctx, named, openai.ItemID)
	if missing := (*responsestore.MissingError)(nil); errors.As(err, &missing) {
		return nil, decoded.ItemNotFound(missing.ID)
	}
	if errors.Is(err, responsestore.ErrTooLong) {
		return nil, openai.ReferencesTooLong()
	}
	if err != nil {
		return nil, g.notRead(r, err)
	}
	return found, nil
}

// completeWithout completes a request where nothing is kept.
func (g *Gateway) completeWithout(decoded *openai.ResponseRequest) *openai.Error {
	if previous := decoded.PreviousID(); previous != "" {
		return openai.PreviousNotFound(previous, previous)
	}
	return decoded.Resolve(nil, nil)
}

// notFollowed tells why a response cannot be followed.
func (g *Gateway) notFollowed(r *http.Request, id string, err error) *openai.Error {
	if missing := (*responsestore.MissingError)(nil); errors.As(err, &missing) {
		return openai.PreviousNotFound(id, missing.ID)
	}
	if errors.Is(err, responsestore.ErrTooLong) {
		return openai.PreviousTooLong()
	}
	return g.notRead(r, err)
}

// notRead tells why what is kept could not be read just now.
func (g *Gateway) notRead(r *http.Request, err error) *openai.Error {
	if errors.Is(err, responsestore.ErrNoMemory) {
		return openai.BodyMemory()
	}
	return g.storeFailed(r, err)
}

// storeFailed tells that the store does not work, and the log why.
func (g *Gateway) storeFailed(r *http.Request, err error) *openai.Error {
	if r.Context().Err() == nil { // else the request is over anyway
		g.opts.Logger.LogAttrs(r.Context(), slog.LevelWarn, "the store of responses failed",
			slog.String("request_id", r.Header.Get("X-Request-Id")),
			slog.String("error", err.Error()))
	}
	return openai.StoreUnavailable()
}

// responseWire is the form of Responses.
type responseWire struct {
	meta    openai.ResponseMeta
	request *openai.ResponseRequest
	entry   *responsestore.Entry // as it is kept at the end; its input is there before
}

func (g *Gateway) newResponseWire(r *http.Request, decoded *openai.ResponseRequest, suffix string) *responseWire {
	meta := decoded.Meta(suffix)
	meta.Created = time.Now().Unix()
	meta.Now = func() int64 { return time.Now().Unix() }
	form := &responseWire{
		request: decoded,
		entry:   &responsestore.Entry{User: g.opts.User(r), Previous: decoded.PreviousID()},
	}
	if decoded.Stored() {
		form.entry.Input = decoded.InputItems(suffix)
	}
	meta.Keep = func(record openai.ResponseRecord) {
		g.running.ended(meta.ID, record.Response)
		if decoded.Stored() {
			form.entry.Response = record.Response
			for _, item := range record.Output {
				form.entry.Output = append(form.entry.Output, responsestore.Output(item))
			}
			g.keep(r, meta.ID, form.entry)
		}
	}
	form.meta = meta
	return form
}

// keep stores a response. Its client gets it in any case.
func (g *Gateway) keep(r *http.Request, id string, entry *responsestore.Entry) {
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
func (f *responseWire) Refusal(failure error) *openai.Error { return f.request.Refusal(failure) }

// responseEvents are the events of a response in a stream.
type responseEvents struct {
	*openai.ResponseStream
	writer *sse.Writer
}

// Holds is true: the last event has the whole response.
func (*responseEvents) Holds() bool { return true }

// Close writes the counts of the calls. There is no end mark: the last event is
// one.
func (e *responseEvents) Close(tools turn.Report) error { return writeCounts(e.writer, tools) }
