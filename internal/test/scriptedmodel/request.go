package scriptedmodel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// Request is a request to create a response, with the members that tests and the
// demo model use.
type Request struct {
	// Number counts the requests of the server, from 1.
	Number int `json:"-"`
	// Header is the HTTP header; over a WebSocket, that of its handshake.
	Header http.Header `json:"-"`
	// Body is the body as received. If a message on a WebSocket continues an
	// earlier response, Body has the whole input, as it would over HTTP.
	Body json.RawMessage `json:"-"`
	// Delivery is how the request was received.
	Delivery `json:"-"`

	Model        string          `json:"model"`
	Stream       bool            `json:"stream"`
	Instructions string          `json:"instructions"`
	Input        Input           `json:"input"`
	Tools        []Tool          `json:"tools"`
	ToolChoice   json.RawMessage `json:"tool_choice"` // a string or an object; nil if absent
	// ParallelToolCalls is nil if absent.
	ParallelToolCalls *bool     `json:"parallel_tool_calls"`
	Text              Text      `json:"text"`
	Reasoning         Reasoning `json:"reasoning"`
	PromptCacheKey    string    `json:"prompt_cache_key"`
	Store             *bool     `json:"store"` // nil if absent
	Include           []string  `json:"include"`
	// Metadata is client_metadata, which has the thread, the turn and the kind of
	// Codex's request.
	Metadata map[string]string `json:"client_metadata"`
	// PreviousResponseID is the response that the request continues, if any.
	PreviousResponseID string `json:"previous_response_id"`
	// Generate is nil if absent.
	Generate *bool `json:"generate"`
}

// IsWarmup reports whether the request prepares for another one. Its answer has no
// output.
func (r Request) IsWarmup() bool { return r.Generate != nil && !*r.Generate }

// Transport is how a request was received.
type Transport string

// The transports.
const (
	HTTP      Transport = "http"
	WebSocket Transport = "websocket"
)

// Delivery describes how a request was received.
type Delivery struct {
	Transport Transport
	// Socket is the number of the WebSocket, from 1. Over HTTP it is 0.
	Socket int
	// Bytes is the size of the body or message as received.
	Bytes int
	// NewItems is the number of input items in a message on a WebSocket, which are
	// the last ones of Input. Over HTTP it is 0.
	NewItems int
}

// Tool is a tool that the model may call.
type Tool struct {
	Type        string          `json:"type"` // "function" for those with a schema
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Strict      bool            `json:"strict"`
	Parameters  json.RawMessage `json:"parameters"` // JSON schema; nil if absent
	Tools       []Tool          `json:"tools"`      // of a namespace
	// Raw is the JSON of the tool.
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

// Text is the "text" member.
type Text struct {
	Format    Format `json:"format"`
	Verbosity string `json:"verbosity"`
}

// Format is the required format of the answer's text.
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

// Item is an input item. Its fields depend on its type.
type Item struct {
	Type    string  `json:"type"` // "message" by default
	ID      string  `json:"id"`
	Role    string  `json:"role"`    // of a message: user, assistant, developer, system
	Content Content `json:"content"` // of a message, and of reasoning

	CallID    string  `json:"call_id"`   // of a function_call and its output
	Name      string  `json:"name"`      // of a function_call
	Arguments string  `json:"arguments"` // of a function_call
	Output    Content `json:"output"`    // of a function_call_output

	Tools []Tool `json:"tools"` // of additional_tools, by which newer models get them

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

// Input is the list of input items. A string is decoded as one message of the
// user.
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

// Content is a list of parts. A string is decoded as one part of type input_text.
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

// String returns the concatenated text of all parts.
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

// decode decodes the body of a request that was received. With an error, the result still has
// the body.
func decode(header http.Header, body []byte, how Delivery) (Request, error) {
	var req Request
	err := json.Unmarshal(body, &req)
	if err != nil {
		req, err = Request{}, fmt.Errorf("the body is not a request to create a response: %w", err)
	}
	req.Header, req.Body, req.Delivery = header, body, how
	return req, err
}
