package codexrpc

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/tidwall/gjson"
)

// injectParams are the parameters of thread/inject_items. The items may have tens
// of megabytes, so that they are joined here: encoding/json would copy them twice
// more.
type injectParams struct {
	threadID string
	items    []json.RawMessage
}

// encode writes the call on one line.
func (p injectParams) encode(id, method string) ([]byte, error) {
	head, err := encode(outgoing{ID: json.RawMessage(id), Method: method, Params: struct {
		ThreadID string `json:"threadId"`
	}{p.threadID}})
	if err != nil {
		return nil, err
	}
	head = bytes.TrimSuffix(head, []byte("}}")) // without the ends of params and of the call
	size := len(head) + len(`,"items":[]}}`) + 1
	for _, item := range p.items {
		size += len(item) + 1
	}
	line := append(make([]byte, 0, size), head...) // with room for the line's end
	line = append(line, `,"items":[`...)
	for i, item := range p.items {
		if i > 0 {
			line = append(line, ',')
		}
		if line, err = appendItem(line, item); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return append(line, `]}}`...), nil
}

// appendItem appends one item on one line. It refuses invalid JSON, which would
// break the stream for all other callers.
func appendItem(line []byte, item json.RawMessage) ([]byte, error) {
	if !gjson.ValidBytes(item) {
		return nil, errGarbage
	}
	if bytes.IndexByte(item, '\n') < 0 && bytes.IndexByte(item, '\r') < 0 {
		return append(line, item...), nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, item); err != nil {
		return nil, err
	}
	return append(line, compact.Bytes()...), nil
}
