package scriptedmodel

import (
	"encoding/json"
	"errors"
	"fmt"
)

// create is a request message of a WebSocket.
type create struct {
	members  map[string]json.RawMessage
	body     []byte            // the message, or the expanded one
	previous string            // id of the response to continue, if any
	input    []json.RawMessage // items in the message
	items    []json.RawMessage // whole input
}

// decodeCreate decodes the members of a message that matter for the transport.
func decodeCreate(message []byte) (*create, error) {
	c := &create{body: message}
	if err := json.Unmarshal(message, &c.members); err != nil {
		return nil, fmt.Errorf("the message is not a JSON object: %w", err)
	}
	if string(c.members["type"]) != `"response.create"` {
		return nil, fmt.Errorf("messages of type %s are not known", c.members["type"])
	}
	if id, ok := c.members["previous_response_id"]; ok {
		if err := json.Unmarshal(id, &c.previous); err != nil {
			return nil, fmt.Errorf("previous_response_id: %w", err)
		}
	}
	input := c.members["input"]
	if isString(input) {
		input = fmt.Appendf(nil, `[{"type":"message","role":"user","content":%s}]`, input)
	}
	if len(input) == 0 || json.Unmarshal(input, &c.input) != nil {
		return nil, errors.New("the input is neither a text nor a list")
	}
	c.items = c.input
	return c, nil
}

// expand sets the whole input of a request that continues the last response. It returns
// false if there is no such response.
func (c *create) expand(last *exchange) bool {
	if c.previous == "" {
		return true
	}
	if last == nil || c.previous != last.id {
		return false
	}
	c.items = append(last.items[:len(last.items):len(last.items)], c.input...)
	input, err := json.Marshal(c.items)
	if err == nil {
		c.members["input"] = input
		c.body, err = json.Marshal(c.members)
	}
	return err == nil // decoded raw messages can be encoded
}
