package scriptedmodel

import (
	"encoding/json"
	"errors"
	"fmt"
)

// create is the message of a WebSocket that asks for a response.
type create struct {
	members  map[string]json.RawMessage
	body     []byte            // as it came, or expanded
	previous string            // id of the response to go on from; empty: none
	input    []json.RawMessage // the items that came
	items    []json.RawMessage // the whole input
}

// decodeCreate decodes a message as far as its transport matters.
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

// isWarmup reports whether no output is wanted.
func (c *create) isWarmup() bool { return string(c.members["generate"]) == "false" }

// expand gives a request that goes on from the last response its whole input. It
// reports whether there is such a response.
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
	return err == nil // raw messages that were decoded encode
}
