package scriptedmodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Request is a request to create a response, with the members that tests and the demo model use.
type Request struct {
	// Number counts the requests of the server, from 1.
	Number int `json:"-"`
	// At is when the request has arrived.
	At time.Time `json:"-"`
	// Header is the HTTP header; over a WebSocket, that of its handshake.
	Header http.Header `json:"-"`
	// Body is the body, or a WebSocket's message with the whole input, as it would be over HTTP.
	Body json.RawMessage `json:"-"`
	// Delivery is how the request was received.
	Delivery `json:"-"`
	// Window, if it is not 0, is the largest allowed number of Tokens, of which the first Cached were
	// sent before ([Server.SetWindow]).
	Window, Tokens, Cached int `json:"-"`

	plan Plan

	Model        string          `json:"model"`
	Stream       bool            `json:"stream"`
	Instructions string          `json:"instructions"`
	Input        []Item          `json:"-"`
	Tools        []Tool          `json:"tools"`
	ToolChoice   json.RawMessage `json:"tool_choice"` // a string or an object; nil if absent
	// ParallelToolCalls is nil if absent.
	ParallelToolCalls *bool     `json:"parallel_tool_calls"`
	Text              Text      `json:"text"`
	Reasoning         Reasoning `json:"reasoning"`
	PromptCacheKey    string    `json:"prompt_cache_key"`
	Store             *bool     `json:"store"` // nil if absent
	Include           []string  `json:"include"`
	// Metadata is client_metadata, which has the thread, the turn and the kind of Codex's request.
	Metadata map[string]string `json:"client_metadata"`
	// PreviousResponseID is the response that the request continues, if any.
	PreviousResponseID string `json:"previous_response_id"`
	// Generate is nil if absent.
	Generate *bool `json:"generate"`
}

// IsWarmup reports whether the request prepares for another one. Its answer has no output.
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
	// NewItems is the number of a WebSocket message's items, the last of Input. Over HTTP it is 0.
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
	Type    string // "message" by default
	ID      string
	Role    string  // of a message: user, assistant, developer, system
	Content Content // of a message, and of reasoning

	CallID    string  // of a function_call and its output
	Name      string  // of a function_call
	Arguments string  // of a function_call
	Output    Content // of a function_call_output

	Tools []Tool // of additional_tools, by which newer models get them

	Summary          Content // of reasoning
	EncryptedContent string  // of reasoning
}

// Part is a part of a content.
type Part struct {
	Type     string // input_text, output_text, input_image, …
	Text     string
	ImageURL string
	Detail   string
}

// Content is a list of parts. A string is decoded as one part of type input_text.
type Content []Part

// String returns the concatenated text of all parts.
func (c Content) String() string {
	var text []byte
	for _, p := range c {
		text = append(text, p.Text...)
	}
	return string(text)
}

// decode decodes the body of a request that was received. With an error, the result still has
// the body. The input may have megabytes, so nothing scans it more often than it has to.
func decode(header http.Header, body []byte, how Delivery) (Request, error) {
	var req Request
	err := errNoObject
	if parsed := gjson.ParseBytes(body); gjson.ValidBytes(body) && parsed.IsObject() {
		var input error
		others := []byte("{")
		parsed.ForEach(func(name, value gjson.Result) bool {
			if name.Str == "input" {
				req.Input, input = decodeInput(value)
				return true
			}
			if len(others) > 1 {
				others = append(others, ',')
			}
			others = append(append(append(others, name.Raw...), ':'), value.Raw...)
			return true
		})
		err = errors.Join(input, json.Unmarshal(append(others, '}'), &req))
	}
	if err != nil {
		req, err = Request{}, fmt.Errorf("the body is not a request to create a response: %w", err)
	}
	req.Header, req.Body, req.Delivery = header, body, how
	return req, err
}

var errNoObject = errors.New("not a JSON object")

// decodeInput decodes the list of input items. A string is one message of the user.
func decodeInput(input gjson.Result) ([]Item, error) {
	if input.Type == gjson.String {
		return []Item{{Type: "message", Role: "user", Content: Content{{Type: "input_text", Text: text(input)}}}}, nil
	}
	var items []Item
	err := eachObject(input, func(one gjson.Result) error {
		item, errs := Item{Type: "message"}, [4]error{}
		one.ForEach(func(name, value gjson.Result) bool {
			switch name.Str {
			case "type":
				item.Type = text(value)
			case "id":
				item.ID = text(value)
			case "role":
				item.Role = text(value)
			case "content":
				item.Content, errs[0] = decodeContent(value)
			case "call_id":
				item.CallID = text(value)
			case "name":
				item.Name = text(value)
			case "arguments":
				item.Arguments = text(value)
			case "output":
				item.Output, errs[1] = decodeContent(value)
			case "tools":
				errs[2] = json.Unmarshal([]byte(value.Raw), &item.Tools)
			case "summary":
				item.Summary, errs[3] = decodeContent(value)
			case "encrypted_content":
				item.EncryptedContent = text(value)
			}
			return true
		})
		items = append(items, item)
		return errors.Join(errs[:]...)
	})
	return items, err
}

func decodeContent(content gjson.Result) (Content, error) {
	if content.Type == gjson.String {
		return Content{{Type: "input_text", Text: text(content)}}, nil
	}
	var parts Content
	err := eachObject(content, func(one gjson.Result) error {
		var part Part
		one.ForEach(func(name, value gjson.Result) bool {
			switch name.Str {
			case "type":
				part.Type = text(value)
			case "text":
				part.Text = text(value)
			case "image_url":
				part.ImageURL = text(value)
			case "detail":
				part.Detail = text(value)
			}
			return true
		})
		parts = append(parts, part)
		return nil
	})
	return parts, err
}

// eachObject calls do for each object of a list. null is an empty list.
func eachObject(list gjson.Result, do func(gjson.Result) error) (err error) {
	if list.Type == gjson.Null {
		return nil
	}
	if !list.IsArray() {
		return errors.New("neither a text nor a list")
	}
	list.ForEach(func(_, one gjson.Result) bool {
		if err = errNoObject; one.IsObject() {
			err = do(one)
		}
		return err == nil
	})
	return err
}

// text returns a string of its own, so that what is kept of a request does not keep a copy of its body.
func text(value gjson.Result) string { return strings.Clone(value.String()) }
