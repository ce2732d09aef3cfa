// Package ollama is the wire format of Ollama's API.
//
// [DecodeChat] and [DecodeGenerate] check the body of a request, and [Request.Plan] maps the
// request to Codex. An [Encoder] encodes the outputs of a turn as lines of JSON or as one object, so
// both have the same content. [Show] describes a model.
package ollama

import (
	"cmp"
	"maps"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Request is the checked body of POST /api/chat or /api/generate.
type Request struct {
	prompt.Conversation

	generate  bool   // it is a request to /api/generate; false: to /api/chat
	think     string // the field think: low, medium, high, max, true or false; empty: it is not given
	onlyLoads bool   // there is nothing to answer: the client wants a model to be loaded or unloaded
	unload    bool   // keep_alive is 0; with onlyLoads, the client wants the model to be unloaded

	// The values of the members that are read after all others.
	messages, prompt, system, images wirejson.Value
}

// DecodeChat reads the body of POST /api/chat, see [prompt]. Without a field stream, the answer is streamed.
func DecodeChat(body []byte) (*Request, *apierror.Error) { return decode(body, false, chatReaders) }

// DecodeGenerate is [DecodeChat] for POST /api/generate, which completes one prompt.
func DecodeGenerate(body []byte) (*Request, *apierror.Error) {
	return decode(body, true, generateReaders)
}

func decode(body []byte, generate bool, readers readers) (*Request, *apierror.Error) {
	r := &Request{generate: generate}
	r.Stream, r.EffortField, r.Shortening.Hidden = true, "think", true
	return field.Body(body, r, func(r *Request, root wirejson.Value) *field.Error {
		r.Body = root
		if f := field.Members(root, r, readers); f != nil {
			return f
		}
		if r.Model == "" {
			return field.Missing().In("model")
		}
		if r.generate {
			return r.readPrompt()
		}
		return r.readMessages(r.messages).In("messages")
	})
}

type readers = field.Readers[*Request]

// settings are the readers of the fields that both routes have.
var settings = readers{
	"model":      (*Request).ReadModel,
	"stream":     (*Request).readStream,
	"format":     (*Request).readFormat,
	"think":      (*Request).readThink,
	"options":    (*Request).readOptions,
	"keep_alive": (*Request).readKeepAlive,
	"logprobs":   (*Request).readLogprobs,

	"num_predict":       (*Request).readLimit, // sent by Open WebUI
	"max_output_tokens": (*Request).readLimit, // sent by the AI SDK's provider

	"top_logprobs": nil,
	"truncate":     nil,
	"shift":        nil,
}

var chatReaders = withSettings(readers{
	"messages": func(r *Request, v wirejson.Value) *field.Error { r.messages = v; return nil },
	"tools":    (*Request).readTools,
})

var generateReaders = withSettings(readers{
	"prompt": func(r *Request, v wirejson.Value) *field.Error { r.prompt = v; return nil },
	"system": func(r *Request, v wirejson.Value) *field.Error { r.system = v; return nil },
	"images": func(r *Request, v wirejson.Value) *field.Error { r.images = v; return nil },
	"suffix": readSuffix,

	"raw":      nil,
	"template": nil,
	"context":  nil,
})

func withSettings(routeReaders readers) readers {
	maps.Copy(routeReaders, settings)
	return routeReaders
}

// readPrompt makes a conversation from the system prompt, the prompt and the images of a completion. If
// there is neither a prompt nor an image, the client only wants a model to be loaded or unloaded.
func (r *Request) readPrompt() *field.Error {
	var system, text string
	if f := cmp.Or(field.Text(&system, r.system).In("system"), field.Text(&text, r.prompt).In("prompt")); f != nil {
		return f
	}
	if system != "" {
		r.Messages = append(r.Messages, prompt.Message{Role: prompt.RoleSystem, Text: r.system, Size: len(r.system)})
	}
	m := prompt.Message{Role: prompt.RoleUser, Size: len(r.prompt) + len(r.images)}
	f := addParts(&m, r.prompt.OrAbsent(), r.images)
	if r.onlyLoads = m.Empty(); !r.onlyLoads {
		r.Messages = append(r.Messages, m)
	}
	return cmp.Or(f, r.Count(&m))
}

// Plan maps the request to Codex, see [prompt.Conversation.Plan]. The values false and "max" of the
// field think ask for the least and the most effort that the model accepts.
func (r *Request) Plan(opts prompt.Options) (*prompt.Plan, *apierror.Error) {
	codexModel, leastEffort, mostEffort := r.Model, "", ""
	if opts.Resolve != nil {
		codexModel, _, _ = opts.Resolve(r.Model)
	}
	if opts.Efforts != nil {
		leastEffort, mostEffort = opts.Efforts(codexModel)
	}
	switch r.Effort = r.think; r.think {
	case "max":
		r.Effort = cmp.Or(mostEffort, "high")
	case "true":
		r.Effort = ""
	case "false": // the effort of an alias, if any, goes before opts.Effort
		r.Effort, opts.Effort, opts.Summary = "", cmp.Or(leastEffort, "low"), "none"
	}
	return r.Conversation.Plan(opts)
}
