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

// The types of the calls of hosted tools.
const (
	itemWebSearch = "web_search_call"
	itemPicture   = "image_generation_call"
)

// progress has the names of the events about the item of a hosted tool, by the type of the item.
// The events in begun are sent when the item begins. The event whole is sent when the item is
// complete. There are no events for partial pictures, since Codex sends none.
var progress = map[string]struct {
	begun []string
	whole string
}{
	itemWebSearch: {[]string{"response.web_search_call.in_progress", "response.web_search_call.searching"}, "response.web_search_call.completed"},
	itemPicture:   {[]string{"response.image_generation_call.in_progress", "response.image_generation_call.generating"}, "response.image_generation_call.completed"},
}

// hostedTool returns the hosted tool of a type. It returns "" if this server has none.
func hostedTool(kind wirejson.Value) prompt.Hosted {
	switch name := kind.Text(); {
	case prompt.IsWebSearch(name):
		return prompt.WebSearchTool
	case name == string(prompt.PictureTool):
		return prompt.PictureTool
	}
	return ""
}

// toolPlace has the index of a hosted tool in the tools of the request (tool), and in the tools of the
// Response (echo).
type toolPlace struct{ tool, echo int }

// readHosted reads a hosted tool.
func (r *Request) readHosted(tool prompt.Hosted, v wirejson.Value, at int) (f *field.Error) {
	if _, again := r.places[tool]; again {
		return field.Invalid("there is such a tool already").In("type")
	}
	if r.places == nil {
		r.places = make(map[prompt.Hosted]toolPlace)
	}
	r.places[tool] = toolPlace{at, len(r.echo.Tools)}
	r.echo.Tools = append(r.echo.Tools, v)
	if tool == prompt.PictureTool {
		return r.readPictureTool(v, at)
	}
	r.Search, f = prompt.ReadWebSearch(v)
	return f
}

// pictureReaders has, by name, a reader for each member of the picture tool that only the Responses
// API has.
var pictureReaders = map[string]func(*prompt.Conversation, wirejson.Value) *field.Error{
	"model": func(c *prompt.Conversation, v wirejson.Value) *field.Error {
		return c.Skip(v, "model", "", wirejson.KindString)
	},
	"action":           func(c *prompt.Conversation, v wirejson.Value) *field.Error { return c.Pictures.ReadAction(v) },
	"input_image_mask": func(_ *prompt.Conversation, v wirejson.Value) *field.Error { return field.Refuse(v, prompt.NoMask) },
}

// readPictureTool reads a tool that makes pictures (ImageGenTool).
func (r *Request) readPictureTool(v wirejson.Value, at int) *field.Error {
	r.Pictures = new(prompt.Pictures)
	own := prompt.Conversation{Pictures: r.Pictures} // it collects the names of ignored members
	f := cmp.Or(field.Members(v, &own, pictureReaders), field.Members(v, &own, prompt.PictureReaders))
	for _, name := range own.Ignored {
		r.Ignore((&field.Error{}).In(name).At(at).In("tools").Path)
	}
	return f
}

// hostedOff are the error messages for hosted tools that the operator does not allow.
var hostedOff = map[prompt.Hosted]string{
	prompt.WebSearchTool: "is a web search, which is off on this server; its operator can allow it with the option web_search",
	prompt.PictureTool:   "makes pictures, which is off on this server; its operator can allow it with the option images",
}

// Without removes a hosted tool, which the operator does not allow, from the request of a Codex
// client (see skipHosted). For other clients, Without returns an error.
func (r *Request) Without(tool prompt.Hosted) *apierror.Error {
	at, has := r.places[tool]
	switch {
	case !has:
		return nil
	case !r.codex:
		return field.Unsupported("%s", hostedOff[tool]).In("type").At(at.tool).In("tools").APIError()
	case tool == prompt.WebSearchTool:
		r.Search = nil
	default:
		r.Pictures = nil
	}
	r.Ignore((&field.Error{}).At(at.tool).In("tools").Path)
	r.echo.Tools[at.echo] = nil // settingsJSON leaves it out
	return nil
}

// pictureCall has the members that only the item of a picture has (ImageGenToolCall).
type pictureCall struct {
	Result  any             `json:"result,omitempty"` // a *string, which may be null
	Revised string          `json:"revised_prompt,omitempty"`
	Failure json.RawMessage `json:"error,omitempty"` // why there is no picture
}

// newPictureCall returns the members of a pictureCall. made is nil until the picture has come.
func newPictureCall(made *turn.Output) pictureCall {
	switch {
	case made == nil:
		return pictureCall{Result: (*string)(nil)}
	case made.Err != nil:
		return pictureCall{Result: (*string)(nil), Failure: failures.APIError(made.Err).Object()}
	}
	return pictureCall{Result: &made.Text, Revised: made.Name}
}

// endPicture ends the open picture. out is passed by value, since the item keeps a pointer to it.
// If out were a pointer, Go would allocate each output on the heap.
func (s *Stream) endPicture(out turn.Output) {
	if s.is(itemPicture) {
		s.open.made = &out
		s.close(statusCompleted)
	}
}

// readPicture reads a picture of an earlier answer, for the model. An item without a result has no
// picture in it. If such an item has an id and has not failed, it becomes a reference to the stored
// item. Otherwise it is left out.
func (i *inputItem) readPicture(_ *Request, fields itemFields) (f *field.Error) {
	if i.silent = !fields.result.Given(); i.silent {
		if !fields.status.Is(statusFailed) && i.id != "" {
			i.kind = itemReference
		}
		return nil
	}
	size := i.message.Size
	i.message, f = prompt.MadePicture(fields.result, fields.revised)
	i.message.Size = size
	return f.In("result")
}

// searchAction returns the action of a web search. Codex also has types of actions that OpenAI's
// API does not have. For these, the result is a plain action of the type search.
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
