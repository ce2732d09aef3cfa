package scriptedmodel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// Request is a request to create a response, decoded as far as tests and the
// demo model look at it.
type Request struct {
	// Number counts the requests of the server, from 1.
	Number int `json:"-"`
	// Header is the HTTP header.
	Header http.Header `json:"-"`
	// Body is the body as it came.
	Body json.RawMessage `json:"-"`

	Model        string          `json:"model"`
	Stream       bool            `json:"stream"`
	Instructions string          `json:"instructions"`
	Input        Input           `json:"input"`
	Tools        []Tool          `json:"tools"`
	ToolChoice   json.RawMessage `json:"tool_choice"` // a string or an object; nil if absent
	// ParallelToolCalls is nil if the request does not say.
	ParallelToolCalls *bool     `json:"parallel_tool_calls"`
	Text              Text      `json:"text"`
	Reasoning         Reasoning `json:"reasoning"`
	PromptCacheKey    string    `json:"prompt_cache_key"`
	Store             *bool     `json:"store"` // nil if the request does not say
	Include           []string  `json:"include"`
	// Metadata is client_metadata, where Codex tells the thread, the turn and
	// the kind of the request.
	Metadata map[string]string `json:"client_metadata"`
}

// Tool is a tool that the model may call.
type Tool struct {
	Type        string          `json:"type"` // "function" for those with a schema
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Strict      bool            `json:"strict"`
	Parameters  json.RawMessage `json:"parameters"` // JSON schema; nil if absent
	// Raw is the whole tool as the request has it.
	Raw json.RawMessage `json:"-"`
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *Tool) UnmarshalJSON(data []byte) error {
	type fields Tool
	if err := json.Unmarshal(data, (*fields)(t)); err != nil {
		return err
	}
	t.Raw = bytes.Clone(data)
	return nil
}

// Text is the "text" member: the form of the answer.
type Text struct {
	Format    Format `json:"format"`
	Verbosity string `json:"verbosity"`
}

// Format is the form that the text of the answer must have.
type Format struct {
	Type   string          `json:"type"` // "text", "json_object" or "json_schema"; empty: text
	Name   string          `json:"name"`
	Strict bool            `json:"strict"`
	Schema json.RawMessage `json:"schema"`
}

// Reasoning is the "reasoning" member.
type Reasoning struct {
	Effort  string `json:"effort"`
	Summary string `json:"summary"`
}

// Item is an input item. Which fields it has depends on its type.
type Item struct {
	Type    string  `json:"type"` // "message" if the item did not say
	ID      string  `json:"id"`
	Role    string  `json:"role"`    // of a message: user, assistant, developer, system
	Content Content `json:"content"` // of a message, and of reasoning

	CallID    string  `json:"call_id"`   // of a function_call and its output
	Name      string  `json:"name"`      // of a function_call
	Arguments string  `json:"arguments"` // of a function_call
	Output    Content `json:"output"`    // of a function_call_output

	Summary          Content `json:"summary"`           // of reasoning
	EncryptedContent string  `json:"encrypted_content"` // of reasoning
}

// Part is a part of a content.
type Part struct {
	Type     string `json:"type"` // input_text, output_text, input_image, …
	Text     string `json:"text"`
	ImageURL string `json:"image_url"`
	Detail   string `json:"detail"`
}

// Input is the list of input items. A request that gives a text instead is
// decoded as one message of the user.
type Input []Item

// UnmarshalJSON implements [json.Unmarshaler].
func (in *Input) UnmarshalJSON(data []byte) error {
	var items []Item
	if isString(data) {
		var text Content
		if err := text.UnmarshalJSON(data); err != nil {
			return err
		}
		items = []Item{{Role: "user", Content: text}}
	} else if err := json.Unmarshal(data, &items); err != nil {
		return err
	}
	for i := range items {
		if items[i].Type == "" {
			items[i].Type = "message"
		}
	}
	*in = items
	return nil
}

// Content is a list of parts. A text instead of a list is decoded as one part of
// type input_text.
type Content []Part

// UnmarshalJSON implements [json.Unmarshaler].
func (c *Content) UnmarshalJSON(data []byte) error {
	if isString(data) {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		*c = Content{{Type: "input_text", Text: text}}
		return nil
	}
	return json.Unmarshal(data, (*[]Part)(c))
}

// String returns the text of all parts, one after another.
func (c Content) String() string {
	var text []byte
	for _, p := range c {
		text = append(text, p.Text...)
	}
	return string(text)
}

func isString(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(data), []byte{'"'})
}

// decodeRequest decodes a body.
func decodeRequest(number int, header http.Header, body []byte) (Request, error) {
	var req Request
	if err := json.Unmarshal(body, &req); err != nil {
		return Request{}, fmt.Errorf("the body is not a request to create a response: %w", err)
	}
	req.Number = number
	req.Header = header.Clone()
	req.Body = bytes.Clone(body)
	return req, nil
}
