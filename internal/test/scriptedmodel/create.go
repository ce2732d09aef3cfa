package scriptedmodel

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// create is a request message of a WebSocket.
type create struct {
	message  gjson.Result
	body     []byte   // the message, or the expanded one
	previous string   // id of the response to continue, if any
	input    []string // items in the message, as JSON
	items    []string // whole input
}

// decodeCreate decodes the members of a message that matter for the transport.
func decodeCreate(message []byte) (*create, error) {
	c := &create{body: message, message: gjson.ParseBytes(message)}
	if !gjson.ValidBytes(message) || !c.message.IsObject() {
		return nil, fmt.Errorf("the message: %w", errNoObject)
	}
	var input gjson.Result
	kind := ""
	c.message.ForEach(func(name, value gjson.Result) bool {
		switch name.Str {
		case "type":
			kind = value.String()
		case "previous_response_id":
			c.previous = value.String()
		case "input":
			input = value
		}
		return true
	})
	switch {
	case kind != "response.create":
		return nil, fmt.Errorf("messages of type %q are not known", kind)
	case input.Type == gjson.String:
		c.input = []string{`{"type":"message","role":"user","content":` + input.Raw + `}`}
	case input.IsArray():
		input.ForEach(func(_, item gjson.Result) bool {
			c.input = append(c.input, strings.Clone(item.Raw)) // which is kept longer than the message
			return true
		})
	default:
		return nil, errors.New("the input is neither a text nor a list")
	}
	c.items = c.input
	return c, nil
}

// expand sets the whole input of a request that continues last, or returns false if none is last.
func (c *create) expand(last *exchange) bool {
	if c.previous == "" {
		return true
	}
	if last == nil || c.previous != last.id {
		return false
	}
	c.items = append(last.items[:len(last.items):len(last.items)], c.input...)
	c.body = append(c.body[:0:0], '{')
	c.message.ForEach(func(name, value gjson.Result) bool {
		if name.Str != "input" {
			c.body = append(append(append(append(c.body, name.Raw...), ':'), value.Raw...), ',')
		}
		return true
	})
	c.body = append(c.body, `"input":[`+strings.Join(c.items, ",")+`]}`...)
	return true
}
