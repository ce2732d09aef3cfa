package chat

import (
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// ImageParam is the field that names the URL of a remote image first, such as
// messages[2].content[1].image_url.url; empty if none does.
func (r *Request) ImageParam(url string) string {
	m, p, found := r.FindRemote(url)
	if !found {
		return ""
	}
	return atImage(&field.Error{}, m, p).Path
}

// atImage says that a fault lies in the URL of an image.
func atImage(f *field.Error, message, part int) *field.Error {
	return f.In("url").In("image_url").At(part).In("content").At(message).In("messages")
}

// Plan maps the request to the app-server's terms:
//
//   - The system and developer messages at the beginning, joined by blank lines,
//     are the thread's instructions. Later ones stay in their place, as developer
//     messages.
//   - A user message at the end is the turn's input, even an empty one. If it is
//     longer than turn/start allows it ends the history instead, like the end of
//     any other conversation, and the input is empty: the model then answers to
//     the history.
//   - Everything between becomes the history. An assistant's text comes before
//     its calls; a message without text and calls leaves nothing.
//   - Tools keep their names unless Codex would not offer them so.
//   - What Codex has no setting for, tool_choice and json_object, becomes a
//     developer instruction.
//
// The error is that an image is still to be fetched, see
// [prompt.Conversation.SetImages]: what else Codex cannot do is refused by [Decode].
func (r *Request) Plan(opts prompt.Options) (*prompt.Plan, *apierror.Error) {
	if m, p, found := r.FindRemote(""); found {
		return nil, atImage(prompt.NotFetched(), m, p).APIError()
	}
	p := r.Conversation.Plan(opts)
	p.Choices = r.Choices()
	p.StopSequences = r.stop
	p.LegacyFunctions = r.usesFunctions
	p.IncludeUsage = r.includeUsage
	return p, nil
}
