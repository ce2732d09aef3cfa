// Package echoapi is the smallest API that works: a test adds it to the gateway. The first line of a
// request names the model, and the rest is the question. The answer is text.
package echoapi

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// API is the API.
var API = api.API{
	Name:   "echo",
	Option: "images", // any option of the handler will do
	Routes: []api.Route{
		{Path: "/echo", Methods: api.Post, Turn: api.Decoder(decode)},
		{Path: "/echo/models", Methods: api.Get, Plain: models},
	},
}

func models(c api.Call) ([]byte, *apierror.Error) {
	all, apiErr := c.Models()
	if apiErr != nil {
		return nil, apiErr
	}
	return []byte(strings.Join(all.Names(), "\n")), nil
}

type request struct{ prompt.Conversation }

func decode(body []byte) (*request, *apierror.Error) {
	model, question, ok := strings.Cut(string(body), "\n")
	r := new(request)
	if r.Model, r.Stream = strings.CutPrefix(model, "stream "); !ok {
		return nil, apierror.InvalidRequest("model", "The first line must name a model.")
	}
	m := prompt.Message{Role: prompt.RoleUser, Text: wirejson.AppendString(nil, question), Size: len(question)}
	r.Messages = append(r.Messages, m)
	return r, r.Count(&m).APIError()
}

func (*request) Answer(api.Start, *turn.Options) api.Answer { return new(encoder) }

// encoder sends each text as an event, or all as one body.
type encoder struct {
	api.Events
	text strings.Builder
}

func (e *encoder) Fail(apiErr *apierror.Error) error { return e.Last("error", apiErr.Body()) }
func (e *encoder) JSON() []byte                      { return []byte(e.text.String()) }

func (e *encoder) Write(_ int, out turn.Output) error {
	switch out.Kind {
	case turn.OutputText:
		e.text.WriteString(out.Text)
		e.Emit("", []byte(out.Text))
	case turn.OutputFinish:
		e.End()
	}
	return e.Err()
}
