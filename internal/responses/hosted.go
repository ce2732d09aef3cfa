package responses

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// The types of the items for calls of hosted tools, which are the web search and the tool that
// makes pictures. The provider or Codex runs these tools, not the client.
const (
	typeWebSearch = "web_search_call"
	typePicture   = "image_generation_call"
)

// progressEvents has the names of the events that only the items of hosted tools have, by the type
// of the item. The events in started are sent when the item begins. The event completed is sent
// when the item is complete. There are no events for partial pictures, since Codex sends none.
var progressEvents = map[string]struct {
	started   []string
	completed string
}{
	typeWebSearch: {[]string{"response.web_search_call.in_progress", "response.web_search_call.searching"}, "response.web_search_call.completed"},
	typePicture:   {[]string{"response.image_generation_call.in_progress", "response.image_generation_call.generating"}, "response.image_generation_call.completed"},
}

// hostedTool returns the hosted tool of this type, or "" if there is no such tool here.
func hostedTool(kind wirejson.Value) prompt.Hosted {
	switch name := kind.Text(); {
	case prompt.IsWebSearch(name):
		return prompt.WebSearchTool
	case name == string(prompt.PictureTool):
		return prompt.PictureTool
	}
	return ""
}

// toolIndexes has the indexes of a hosted tool in the tools of the request and in the tools of the
// Response.
type toolIndexes struct{ request, response int }

// readHostedTool reads a hosted tool. index is the tool's index in the tools of the request.
func (r *Request) readHostedTool(tool prompt.Hosted, v wirejson.Value, index int) (f *field.Error) {
	if _, again := r.hostedIndexes[tool]; again {
		return field.Invalid("there is such a tool already").In("type")
	}
	if r.hostedIndexes == nil {
		r.hostedIndexes = make(map[prompt.Hosted]toolIndexes)
	}
	r.hostedIndexes[tool] = toolIndexes{index, len(r.echoed.Tools)}
	r.echoed.Tools = append(r.echoed.Tools, v)
	if tool == prompt.PictureTool {
		return r.readPictureTool(v, index)
	}
	r.Search, f = prompt.ReadWebSearch(v)
	return f
}

// pictureReaders has readers for members of the picture tool. Only the Responses API has these
// members. The readers for the other members are [prompt.PictureReaders].
var pictureReaders = map[string]func(*prompt.Conversation, wirejson.Value) *field.Error{
	"model": func(c *prompt.Conversation, v wirejson.Value) *field.Error {
		return c.Skip(v, "model", "", wirejson.KindString)
	},
	"action":           func(c *prompt.Conversation, v wirejson.Value) *field.Error { return c.Pictures.ReadAction(v) },
	"input_image_mask": func(_ *prompt.Conversation, v wirejson.Value) *field.Error { return field.Refuse(v, prompt.NoMask) },
}

// readPictureTool reads a tool that makes pictures (ImageGenTool).
func (r *Request) readPictureTool(v wirejson.Value, index int) *field.Error {
	r.Pictures = new(prompt.Pictures)
	scratch := prompt.Conversation{Pictures: r.Pictures} // collects the names of ignored members
	f := cmp.Or(field.Members(v, &scratch, pictureReaders), field.Members(v, &scratch, prompt.PictureReaders))
	for _, name := range scratch.Ignored {
		r.Ignore((&field.Error{}).In(name).At(index).In("tools").Path)
	}
	return f
}

// toolOffMessages are the error messages for hosted tools that the operator does not allow.
var toolOffMessages = map[prompt.Hosted]string{
	prompt.WebSearchTool: "is a web search, which is off on this server; its operator can allow it with the option web_search",
	prompt.PictureTool:   "makes pictures, which is off on this server; its operator can allow it with the option images",
}

// Without is called for a hosted tool that the operator does not allow. If the request does not
// declare the tool, Without does nothing. If the client is Codex itself, Without removes the tool,
// since Codex also works without it. For other clients, Without returns an error.
func (r *Request) Without(tool prompt.Hosted) *apierror.Error {
	indexes, declared := r.hostedIndexes[tool]
	switch {
	case !declared:
		return nil
	case !r.isCodex:
		return field.Unsupported("%s", toolOffMessages[tool]).In("type").At(indexes.request).In("tools").APIError()
	case tool == prompt.WebSearchTool:
		r.Search = nil
	default:
		r.Pictures = nil
	}
	r.Ignore((&field.Error{}).At(indexes.request).In("tools").Path)
	r.echoed.Tools[indexes.response] = nil // settingsJSON leaves out tools that are nil
	return nil
}

// pictureCall has the members that only the item of a picture has (ImageGenToolCall).
type pictureCall struct {
	Result  any             `json:"result,omitempty"` // a *string: the picture, or null if the pointer is nil; an untyped nil: the member is absent
	Revised string          `json:"revised_prompt,omitempty"`
	Failure json.RawMessage `json:"error,omitempty"` // why there is no picture; nil: there is no error
}

// newPictureCall returns the members of a pictureCall. picture is nil until the picture has come.
func newPictureCall(picture *turn.Output) pictureCall {
	switch {
	case picture == nil:
		return pictureCall{Result: (*string)(nil)}
	case picture.Err != nil:
		return pictureCall{Result: (*string)(nil), Failure: failures.APIError(picture.Err).Object()}
	}
	return pictureCall{Result: &picture.Text, Revised: picture.Name}
}

// endPicture adds out to the open item and ends the item, if the item is a picture. out is passed
// by value, although the item keeps a pointer to it: with a pointer as the parameter, Go would
// allocate every output of Write on the heap.
func (s *Stream) endPicture(out turn.Output) {
	if s.isOpen(typePicture) {
		s.openItem.picture = &out
		s.endItem(statusCompleted)
	}
}

// readPicture reads a picture of an earlier answer. An item without a result has no picture, so the
// model does not get the item. If such an item has an id and its status is not failed, it becomes a
// reference, and [Request.Resolve] replaces it by the stored item.
func (i *inputItem) readPicture(_ *Request, fields itemFields) (f *field.Error) {
	if i.hiddenFromModel = !fields.result.Given(); i.hiddenFromModel {
		if !fields.status.Is(statusFailed) && i.id != "" {
			i.kind = typeReference
		}
		return nil
	}
	size := i.message.Size
	i.message, f = prompt.MadePicture(fields.result, fields.revised)
	i.message.Size = size
	return f.In("result")
}

// searchAction returns the action of a web search. text is Codex's action, or empty. If text is not
// an action, or if OpenAI's API does not have the type of the action, the result is an action of
// the type search without other members.
func searchAction(text string) json.RawMessage {
	if action, err := wirejson.Parse([]byte(text)); err == nil && action.Kind() == wirejson.KindObject {
		var kind wirejson.Value
		action.Pick(wirejson.Into("type", &kind))
		if slices.ContainsFunc([]string{"search", "open_page", "find_in_page"}, kind.Is) {
			return json.RawMessage(action)
		}
	}
	return json.RawMessage(`{"type":"search"}`)
}
