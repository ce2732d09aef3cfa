package openai

// ImageParam is the field that names the URL of a remote image first, such as
// messages[2].content[1].image_url.url; empty if none does.
func (r *ChatRequest) ImageParam(url string) string {
	m, p, found := r.findRemote(url)
	if !found {
		return ""
	}
	return atImage(&fault{}, m, p).path
}

// atImage says that a fault lies in the URL of an image.
func atImage(f *fault, message, part int) *fault {
	return f.in("url").in("image_url").at(part).in("content").at(message).in("messages")
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
// [conversation.SetImages]: what else Codex cannot do is refused by [DecodeChat].
func (r *ChatRequest) Plan(opts PlanOptions) (*Plan, *Error) {
	if m, p, found := r.findRemote(""); found {
		return nil, atImage(notFetched(), m, p).toError()
	}
	p := r.plan(opts)
	p.Choices = r.Choices()
	p.StopSequences = r.stop
	p.LegacyFunctions = r.usesFunctions
	p.IncludeUsage = r.includeUsage
	return p, nil
}
