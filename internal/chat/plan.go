package chat

import (
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// ImageParam returns the first field with the URL of a remote image, such as
// messages[2].content[1].image_url.url. It is empty if there is none.
func (r *Request) ImageParam(url string) string {
	m, p, found := r.FindRemote(url)
	if !found {
		return ""
	}
	return r.atImage(&field.Error{}, m, p).Path
}

// atImage puts the path of the URL of an image before that of an error.
func (r *Request) atImage(f *field.Error, message, part int) *field.Error {
	if r.body != nil {
		f.Path = r.body.ImagePath(message, part)
		return f
	}
	return f.In("url").In("image_url").At(part).In("content").At(message).In("messages")
}

// Plan maps the request to Codex, see [prompt.Conversation.Plan]. It fails if an image
// still has to be fetched, see [prompt.Conversation.SetImages].
func (r *Request) Plan(opts prompt.Options) (*prompt.Plan, *apierror.Error) {
	if m, p, found := r.FindRemote(""); found {
		return nil, r.atImage(prompt.NotFetched(), m, p).APIError()
	}
	p := r.Conversation.Plan(opts)
	if r.body != nil && r.body.Summary != "" && !opts.NoReasoning {
		p.SetSummary(r.body.Summary)
	}
	p.Choices = r.Choices()
	p.StopSequences = r.stop
	p.LegacyFunctions = r.usesFunctions
	p.IncludeUsage = r.includeUsage
	return p, nil
}
