package prompt

import "github.com/caddy-codex/caddy-codex/internal/apierror"

// Hosted is a tool that the provider or Codex runs, not the client. The operator has to allow each
// one.
type Hosted string

// The tools.
const (
	WebSearchTool Hosted = "web_search"       // the provider runs it
	PictureTool   Hosted = "image_generation" // Codex runs it, with the help of the provider
)

// hostedTexts has two texts for each tool. missing is the error if a request requires the tool but
// does not have it. must tells the model to use the tool.
var hostedTexts = map[Hosted]struct{ missing, must string }{
	WebSearchTool: {"there is no web search in 'tools'", "In this reply you must search the web before you answer."},
	PictureTool:   {"there is no image_generation in 'tools'", "In this reply you must make a picture with the tool imagegen before you answer."},
}

// hasHosted reports whether the request has the tool.
func (c *Conversation) hasHosted(tool Hosted) bool {
	if tool == WebSearchTool {
		return c.Search != nil
	}
	return c.Pictures != nil
}

// mayUseHosted reports whether the request has the tool and the model may use it.
func (c *Conversation) mayUseHosted(tool Hosted) bool {
	choice := &c.Choice
	return c.hasHosted(tool) && !choice.None && choice.Only == nil && (choice.Hosted == "" || choice.Hosted == tool)
}

// Without does nothing, since requests of most APIs cannot have a hosted tool. The requests of
// other APIs have their own method Without. That method removes a tool that the operator does not
// allow, and fails if the client needs the tool.
func (*Conversation) Without(Hosted) *apierror.Error { return nil }
